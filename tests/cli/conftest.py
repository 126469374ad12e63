"""One running `gepard serve` for all tests of this folder that need one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shared.settings import LogSettings
from shared.telemetry import configure_logging
from tests.support.gepard import Gepard


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gepard]:
    """Everything warm, on a free port; its data folder has a name that must be quoted in a URL."""
    folder = tmp_path_factory.mktemp("serve")
    running = Gepard(folder, "serve", "--port", 0, "--data-dir", folder / "da ta #1%20")
    try:
        running.await_banner()
        yield running
    finally:
        running.clean()


@pytest.fixture
def url(serve: Gepard) -> str:
    """Address of the running serve."""
    return serve.await_banner()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Gepard]]:
    """Start processes of one test's own."""
    started: list[Gepard] = []

    def begin(*arguments: object, **env: str) -> Gepard:
        started.append(Gepard(tmp_path / str(len(started)), *arguments, **env))
        return started[-1]

    yield begin
    for process in started:
        process.clean()


@pytest.fixture(autouse=True)
def logs_stay_as_they_were() -> Iterator[None]:
    """Commands that run in this process set logging up for themselves."""
    yield
    configure_logging(LogSettings(level="info", format="json"), process="test")
