import os

import pytest

from tests.support.vllm_suite import ENGINE, PRODUCT, ROOT, Part, run

PYTHON = ROOT / os.environ.get("VLLM_VENV", ".venv-vllm") / "bin" / "python"


@pytest.mark.timeout(900)
@pytest.mark.skipif(not PYTHON.exists(), reason="vLLM for the CPU is absent; `make setup-vllm` installs it")
@pytest.mark.parametrize("part", [ENGINE, PRODUCT], ids=["engine", "product"])
def test_the_suite_passes_in_the_environment_with_vllm(part: Part) -> None:
    """vLLM needs other versions of torch and numpy than the rest: its tests run in a process of theirs."""
    status, printed = run(part, "-q", python=PYTHON, quiet=True)
    assert status == 0, printed
    assert " passed" in printed
    assert "skipped" not in printed
