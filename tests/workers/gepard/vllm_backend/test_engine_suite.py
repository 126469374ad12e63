import os
import subprocess

import pytest

from tests.support.vllm_suite import ROOT, command, environment

PYTHON = ROOT / os.environ.get("VLLM_VENV", ".venv-vllm") / "bin" / "python"


@pytest.mark.timeout(900)
@pytest.mark.skipif(not PYTHON.exists(), reason="vLLM for the CPU is absent; `make setup-vllm` installs it")
def test_the_engine_passes_its_own_tests_in_the_environment_with_vllm() -> None:
    """vLLM needs other versions of torch and numpy than the rest: the tests in engine/ run in a process of theirs."""
    done = subprocess.run(
        [*command(PYTHON), "-q"], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
