from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is absent; `make test-gepard` installs it")

from benchmarks.gepard_decode import measure
from benchmarks.random_checkpoint import write_checkpoint
from workers.gepard.checkpoint import load_checkpoint


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_random_checkpoint_is_a_checkpoint_and_never_stops(tiny: Path, tmp_path: Path, dtype: str) -> None:
    torch.set_num_threads(1)
    write_checkpoint(tmp_path, configuration=tiny, dtype=dtype, seed=1)
    checkpoint = load_checkpoint(tmp_path, dtype=dtype)
    assert checkpoint.tokenizer.prompt("Hi <|audio_start|>!").num_text_tokens == len("Hi <|audio_start|>!")
    times = measure(checkpoint, rows=2, streams=2, frames=8)
    assert times["frames_per_s"] > 0


def test_the_same_seed_writes_the_same_weights(tiny: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_checkpoint(tmp_path / name, configuration=tiny, dtype="bfloat16", seed=1)
    a, b = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("a", "b"))
    assert a == b
