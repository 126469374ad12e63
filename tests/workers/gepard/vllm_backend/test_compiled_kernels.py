"""What the interpreter cannot show: that the sampler compiles, and how the compiled one rounds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is absent; `make test-gepard` installs it")
pytest.importorskip("triton", reason="Triton is absent; `make setup-gepard` installs it")

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("logits", ["*fp32", "*bf16"])
def test_the_compiled_sampler_neither_fuses_nor_approximates(logits: str, tmp_path: Path) -> None:
    """Its codes equal the plain sampler's only if no float32 operation rounds otherwise."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, "-m", "tests.support.compiled_sampler", logits],
        cwd=ROOT,
        env={**environment, "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "div.rn.f32" in run.stdout
    for inexact in ("fma.rn.f32", "div.full.f32", "div.approx", "ex2.approx", "lg2.approx"):
        assert inexact not in run.stdout
