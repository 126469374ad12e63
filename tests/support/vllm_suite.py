"""Run the tests of the vLLM engine with this interpreter, which is that of the environment with vLLM.

    .venv-vllm/bin/python tests/support/vllm_suite.py [pytest arguments]

They stand on few packages: the fixtures of the rest, which need the whole product, are left out.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = "tests/workers/gepard/vllm_backend/engine"


def command(python: str | Path = sys.executable) -> list[str]:
    """The command, to be run in ROOT."""
    # Warnings of vLLM and what it imports are theirs.
    return [str(python), "-m", "pytest", SUITE, "--confcutdir=tests/workers/gepard", "-W", "default"]


def environment() -> dict[str, str]:
    """So that this checkout is tested, and Triton runs its kernels in its interpreter."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_INTERPRET": "1"}


if __name__ == "__main__":
    sys.exit(subprocess.run([*command(), *sys.argv[1:]], cwd=ROOT, env=environment(), check=False).returncode)
