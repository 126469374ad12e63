import io
import json
import pickle
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shared.errors import CheckpointError

torch = pytest.importorskip("torch", reason="PyTorch is absent; `make test-gepard` installs it")

from workers.gepard.checkpoint import load_checkpoint

Header = dict[str, Any]


def _split(source: Path) -> tuple[Header, bytes]:
    """Header and data of a safetensors file."""
    content = source.read_bytes()
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def _join(header: Header | bytes, data: bytes) -> bytes:
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(encoded).to_bytes(8, "little") + encoded + data


def _tensors(source: Path) -> dict[str, np.ndarray]:
    """Name to float32 array."""
    header, data = _split(source)
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
        for name, entry in header.items()
    }


def _packed(tensors: dict[str, np.ndarray], dtype: str = "F32") -> bytes:
    """A safetensors file; BF16 keeps the upper half of each float32."""
    header, data = {}, io.BytesIO()
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array, "<f4").tobytes()
        if dtype == "BF16":
            raw = np.frombuffer(raw, "<u2")[1::2].tobytes()
        start = data.tell()
        data.write(raw)
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [start, data.tell()]}
    return _join(header, data.getvalue())


@pytest.fixture
def folder(tiny: Path, tmp_path: Path) -> Path:
    """A copy of the tiny checkpoint to spoil."""
    return Path(shutil.copytree(tiny, tmp_path / "checkpoint"))


@pytest.mark.parametrize("shape", [(), (1,)], ids=["0-dim", "1-dim"])
def test_scalars_are_read_in_both_shapes(folder: Path, shape: tuple[int, ...], checkpoint: Any) -> None:
    tensors = _tensors(folder / "model.safetensors")
    for name in ("audio_embed_scale", "ref_compressor.output_scale"):
        tensors[name] = tensors[name].reshape(shape)
    (folder / "model.safetensors").write_bytes(_packed(tensors))
    model = load_checkpoint(folder).model
    assert torch.equal(model.frame_embedding.scale, checkpoint.model.frame_embedding.scale)
    assert model.compressor.output_scale.shape == (1,)


@pytest.mark.parametrize(
    ("stored", "asked", "loaded"),
    [
        ("F32", None, torch.float32),
        ("F32", "bfloat16", torch.bfloat16),
        ("BF16", "bfloat16", torch.bfloat16),
        ("BF16", "float32", torch.float32),
    ],
)
def test_weights_are_cast_once_to_the_dtype_asked_for(
    folder: Path, stored: str, asked: Any, loaded: torch.dtype
) -> None:
    (folder / "model.safetensors").write_bytes(_packed(_tensors(folder / "model.safetensors"), stored))
    model = load_checkpoint(folder, dtype=asked).model
    assert {parameter.dtype for parameter in model.parameters()} == {loaded}


def test_training_only_tensors_may_be_absent(folder: Path, checkpoint: Any) -> None:
    tensors = _tensors(folder / "model.safetensors")
    assert any(name.startswith("supcon_head.") for name in tensors)
    kept = {name: array for name, array in tensors.items() if not name.startswith("supcon_head.")}
    (folder / "model.safetensors").write_bytes(_packed(kept))
    state = load_checkpoint(folder).model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in checkpoint.model.state_dict().items())


def test_channels_are_joined_in_channel_order(tiny: Path, checkpoint: Any) -> None:
    tensors = _tensors(tiny / "model.safetensors")
    heads = [tensors[f"codebook_heads.{i}.weight"] for i in range(32)] + [tensors["stop_head.weight"]]
    assert np.array_equal(checkpoint.model.heads.proj.weight.numpy(), np.concatenate(heads))
    tables = [tensors[f"audio_embeddings.{i}.weight"] for i in range(32)]
    assert np.array_equal(checkpoint.model.frame_embedding.table.weight.numpy(), np.concatenate(tables))


def test_the_revision_tells_weights_apart(folder: Path, checkpoint: Any) -> None:
    assert load_checkpoint(folder).revision == checkpoint.revision
    tensors = _tensors(folder / "model.safetensors")
    tensors["stop_head.bias"] = tensors["stop_head.bias"] + 1
    (folder / "model.safetensors").write_bytes(_packed(tensors))
    assert load_checkpoint(folder).revision != checkpoint.revision


def test_a_model_without_voice_cloning_loads(folder: Path) -> None:
    config = json.loads((folder / "gepard_config.json").read_text())
    config["voice_cloning"]["enabled"] = False
    (folder / "gepard_config.json").write_text(json.dumps(config))
    tensors = _tensors(folder / "model.safetensors")
    kept = {k: v for k, v in tensors.items() if not k.startswith(("ref_compressor.", "null_prefix"))}
    (folder / "model.safetensors").write_bytes(_packed(kept))
    model = load_checkpoint(folder).model
    assert model.compressor is None
    assert model.null_prefix is None


@pytest.mark.parametrize("name", ["gepard_config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name}: missing"):
        load_checkpoint(folder)


def test_a_missing_folder_is_a_checkpoint_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="missing"):
        load_checkpoint(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("codebook_heads.31.bias"), r"missing codebook_heads\.31\.bias"),
        (lambda t: t.pop("model.norm.weight"), r"missing model\.norm\.weight"),
        (lambda t: t.update({"lm_head.weight": np.zeros((2, 2))}), r"does not have: lm_head\.weight"),
        (lambda t: t.update({"stop_head.bias": np.zeros(2)}), r"stop_head\.bias is \[2\], expected \[1\]"),
        (lambda t: t.update({"stop_head.bias": np.zeros(())}), r"stop_head\.bias is \[\], expected \[1\]"),
        (lambda t: t.update({"audio_embed_scale": np.zeros(2)}), r"audio_embed_scale is \[2\]"),
        (
            lambda t: t.update({"model.layers.0.self_attn.q_proj.lora_A": np.zeros((2, 2))}),
            r"unmerged adapter, merge it first: model\.layers\.0\.self_attn\.q_proj\.lora_A",
        ),
        (
            lambda t: t.update({"model.layers.0.mlp.up_proj.base.weight": t.pop("model.layers.0.mlp.up_proj.weight")}),
            r"unmerged adapter.*up_proj\.base\.weight",
        ),
        (lambda t: t.update({f"x{i}": np.zeros(1) for i in range(99)}), r"x0, x1, x10, x11, x12 and 94 more"),
        (lambda t: t.update({"\x1b[2J" + "n" * 9999: np.zeros(1)}), r"does not have: '\\x1b\[2Jn{100,120}"),
    ],
    ids=[
        "missing head",
        "missing norm",
        "extra",
        "misshapen",
        "no scalar here",
        "misshapen scalar",
        "adapter",
        "adapted base",
        "many extra",
        "terminal codes",
    ],
)
def test_a_tensor_that_does_not_fit_is_named(
    folder: Path, change: Callable[[dict[str, np.ndarray]], object], message: str
) -> None:
    tensors = _tensors(folder / "model.safetensors")
    change(tensors)
    (folder / "model.safetensors").write_bytes(_packed(tensors))
    with pytest.raises(CheckpointError, match=message) as error:
        load_checkpoint(folder)
    assert "model.safetensors" in str(error.value)


def _entry(header: Header, **fields: Any) -> Header:
    header["stop_head.bias"] = {**header["stop_head.bias"], **fields}
    return header


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda h, d: b"", "truncated"),
        (lambda h, d: b"\0" * 7, "truncated"),
        (lambda h, d: _join(h, d)[:1000], "truncated"),
        (lambda h, d: _join(h, d)[:-1], "truncated"),
        (lambda h, d: _join(h, d) + b"\0", "1 bytes belong to no tensor"),
        (lambda h, d: (1 << 63).to_bytes(8, "little") + d, "not safetensors"),
        (lambda h, d: _join(b"{" * 1000, d), "no JSON object"),
        (lambda h, d: _join(b"[" * 100_000, d), "no JSON object"),
        (lambda h, d: _join(b'"\xff"', d), "no JSON object"),
        (lambda h, d: _join(_entry(h, dtype="F16"), d), r"stop_head\.bias is F16, read are BF16, F32"),
        (lambda h, d: _join(_entry(h, dtype="F64"), d), r"stop_head\.bias is F64"),
        (lambda h, d: _join(_entry(h, dtype="I64"), d), r"stop_head\.bias is I64"),
        (lambda h, d: _join(_entry(h, dtype=7), d), r"stop_head\.bias: "),
        (lambda h, d: _join(_entry(h, shape=[1 << 62, 1 << 62]), d), r"stop_head\.bias .* needs"),
        (lambda h, d: _join(_entry(h, shape=[-1]), d), r"stop_head\.bias: "),
        (lambda h, d: _join(_entry(h, data_offsets=[0, 4]), d), r"starts at"),
        (lambda h, d: _join(_entry(h, data_offsets=[-4, 0]), d), r"stop_head\.bias: "),
        (lambda h, d: _join(_entry(h, data_offsets=[1 << 70, 4 + (1 << 70)]), d), r"starts at"),
    ],
    ids=[
        "empty",
        "seven bytes",
        "cut in the header",
        "cut in the data",
        "a byte more",
        "huge header",
        "no JSON",
        "deep JSON",
        "no text",
        "half",
        "double",
        "integer",
        "dtype a number",
        "absurd shape",
        "negative shape",
        "overlap",
        "negative offset",
        "absurd offset",
    ],
)
def test_a_damaged_weights_file_is_refused(folder: Path, spoil: Callable[[Header, bytes], bytes], message: str) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(spoil(*_split(path)))
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(folder)


class _Payload:
    """Unpickling it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_a_pickle_is_refused_and_not_run(folder: Path, protocol: int) -> None:
    mark = folder / "ran"
    (folder / "model.safetensors").write_bytes(pickle.dumps(_Payload(mark), protocol=protocol))
    with pytest.raises(CheckpointError, match=r"model\.safetensors: (a pickle, )?not safetensors"):
        load_checkpoint(folder)
    assert not mark.exists()


def test_a_torch_file_is_refused_and_not_run(folder: Path) -> None:
    mark = folder / "ran"
    torch.save({"model.norm.weight": _Payload(mark)}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="pickles are never loaded"):
        load_checkpoint(folder)
    assert not mark.exists()


def test_code_beside_the_weights_is_not_opened(folder: Path) -> None:
    (folder / "modeling_gepard.py").write_text("raise SystemExit('ran')")
    (folder / "lora_adapter.pt").write_bytes(b"\x80\x04junk")
    load_checkpoint(folder)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"vocab_size": 1 << 20}, r"embed_tokens\.weight is \[448, 64\], expected \[1048576, 64\]"),
        ({"vocab_size": 1 << 20, "hidden_size": 1 << 16}, "more than 8000000000 parameters"),
        ({"intermediate_size": 1 << 16}, r"mlp\.gate_proj\.weight"),
    ],
    ids=["tall", "beyond any model", "wide"],
)
def test_sizes_the_file_does_not_hold_take_no_memory(folder: Path, sizes: dict[str, int], message: str) -> None:
    config = json.loads((folder / "gepard_config.json").read_text())
    config["backbone_config"].update(sizes)
    config["voice_cloning"]["compressor"]["d_model"] = config["backbone_config"]["hidden_size"]
    (folder / "gepard_config.json").write_text(json.dumps(config))
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 64 * 1024
