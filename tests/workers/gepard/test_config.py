import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared.errors import CheckpointError
from workers.gepard.config import read_config
from workers.gepard.tensors import TRAINING_ONLY, expected_tensors

Change = Callable[[dict[str, Any]], object]


def _write(folder: Path, source: Path, change: Change) -> Path:
    config = json.loads((source / "gepard_config.json").read_text())
    change(config)
    (folder / "gepard_config.json").write_text(json.dumps(config))
    return folder


def test_the_tensors_of_the_full_model_follow_from_its_configuration(
    full: Path, manifest: dict[str, tuple[list[int], str]]
) -> None:
    expected = expected_tensors(read_config(full))
    needed = {name: tuple(shape) for name, (shape, _) in manifest.items() if not name.startswith(TRAINING_ONLY)}
    assert expected == needed


def test_heads_keep_the_order_of_the_file(tiny: Path, tmp_path: Path) -> None:
    """Sorted by name, level_audio_10 would come before level_audio_2 and permute the heads."""
    assert read_config(tiny).head_sizes == (8, 7, 6, 6) * 8


def test_absent_fields_take_their_defaults(tiny: Path, tmp_path: Path) -> None:
    def drop(config: dict[str, Any]) -> None:
        for name in ("audio_embed_dim", "partial_rotary_factor", "model_dtype", "text_repetition"):
            del config[name]

    config = read_config(_write(tmp_path, tiny, drop))
    assert (config.audio_embed_dim, config.dtype, config.text_repetition.enabled) == (32, "bfloat16", False)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("bf16", "bfloat16"), ("torch.bfloat16", "bfloat16"), ("fp32", "float32"), ("float", "float32")],
)
def test_dtype_aliases_are_understood(tiny: Path, tmp_path: Path, name: str, dtype: str) -> None:
    assert read_config(_write(tmp_path, tiny, lambda config: config.update(model_dtype=name))).dtype == dtype


def test_a_model_without_voice_cloning_has_no_compressor(tiny: Path, tmp_path: Path) -> None:
    config = read_config(_write(tmp_path, tiny, lambda c: c["voice_cloning"].update(enabled=False)))
    assert config.compressor is None
    assert not [name for name in expected_tensors(config) if "compressor" in name or name == "null_prefix"]


def test_unknown_keys_are_tolerated(tiny: Path, tmp_path: Path) -> None:
    read_config(_write(tmp_path, tiny, lambda config: config.update(aligner={"kind": "none"})))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda c: c.update(model_type="llama"), "model_type"),
        (lambda c: c.pop("backbone_config"), "backbone_config"),
        (lambda c: c.pop("special_tokens"), "special_tokens"),
        (lambda c: c["backbone_config"].update(hidden_size=10**12), "hidden_size"),
        (lambda c: c["backbone_config"].update(hidden_size=-64), "hidden_size"),
        (lambda c: c["backbone_config"].update(hidden_size=10**400), "gepard_config.json"),
        (lambda c: c["backbone_config"].update(num_hidden_layers=10**6), "num_hidden_layers"),
        (lambda c: c["backbone_config"].update(layer_types=["full_attention"]), "layer_types"),
        (lambda c: c["backbone_config"].update(layer_types=["linear_attention"] * 2), "layer_types"),
        (lambda c: c["backbone_config"].update(num_key_value_heads=3), "num_key_value_heads"),
        (lambda c: c["backbone_config"].update(attention_bias=True), "attention_bias"),
        (lambda c: c["backbone_config"].update(hidden_act="gelu"), "hidden_act"),
        (lambda c: c["backbone_config"]["rope_parameters"].update(rope_type="yarn"), "rope_type"),
        (lambda c: c["audio_heads"].popitem(), "audio_heads"),
        (lambda c: c["audio_heads"].update(level_audio_0=10**9), "audio_heads"),
        (lambda c: c.update(partial_rotary_factor=0.25), "partial_rotary_factor"),
        (lambda c: c.update(model_dtype="float16"), "model_dtype"),
        (lambda c: c["special_tokens"].update(start_of_speech=448), "start_of_speech"),
        (lambda c: c["codec"].update(fsq_levels=[]), "fsq_levels"),
        (lambda c: c["text_repetition"].update(max_repeats=10**9), "max_repeats"),
        (lambda c: c["voice_cloning"].pop("compressor"), "compressor"),
        (lambda c: c["voice_cloning"]["compressor"].update(d_model=128), "d_model"),
        (lambda c: c["voice_cloning"]["compressor"].update(num_queries=10**9), "num_queries"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_field_is_refused_by_name(tiny: Path, tmp_path: Path, change: Change, named: str) -> None:
    with pytest.raises(CheckpointError, match=named):
        read_config(_write(tmp_path, tiny, change))


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"\xff\xfe\x00", b"[" * 100_000, b" " * (1 << 20) + b"{}"],
    ids=["empty", "a list", "cut", "not text", "deep", "large"],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "gepard_config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"gepard_config\.json"):
        read_config(tmp_path)


def test_a_missing_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"gepard_config\.json: missing"):
        read_config(tmp_path)


def test_a_pipe_in_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gepard_config.json")
    with pytest.raises(CheckpointError, match="not a regular file"):
        read_config(tmp_path)
