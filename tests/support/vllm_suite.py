"""Run the tests of vLLM with this interpreter, which is that of the environment with vLLM.

    .venv-vllm/bin/python tests/support/vllm_suite.py [pytest arguments]

First those of the engine itself. Then those of the engine host and of speech over HTTP, which elsewhere run over
plain PyTorch, once more with vLLM behind them.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]

Part = tuple[Sequence[str], Mapping[str, str]]
"""Arguments of pytest and what its environment has besides."""

ENGINE: Part = (("tests/workers/gepard/vllm_backend/engine", "--confcutdir=tests/workers/gepard"), {})
PRODUCT: Part = (("tests/workers/host/test_host.py", "tests/gateway/test_gepard.py"), {"TEST_BACKEND": "vllm"})


def run(part: Part, *arguments: str, python: str | Path = sys.executable, quiet: bool = False) -> tuple[int, str]:
    """Exit status, and what was printed where it is `quiet`."""
    tests, settings = part
    # This checkout is tested; Triton runs its kernels in its interpreter. Warnings of vLLM are its own.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_INTERPRET": "1", **settings}
    command = [str(python), "-m", "pytest", *tests, "-W", "default", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=quiet, text=True, check=False)
    return done.returncode, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}" if quiet else ""


if __name__ == "__main__":
    sys.exit(max(run(part, *sys.argv[1:])[0] for part in (ENGINE, PRODUCT)))
