"""One `gepard serve` for all conformance tests: Valkey, a worker with the embedded engine, a gateway."""

import signal
from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.support.gepard import Gepard

_LOG_TAIL_CHARS = 8000


@pytest.fixture(scope="session")
def gepard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gepard]:
    """Warm, on a free port, with a data folder of its own."""
    folder = tmp_path_factory.mktemp("gepard")
    running = Gepard(folder, "serve", "--port", 0, "--data-dir", folder / "data")
    try:
        running.await_banner()
        yield running
        running.end(signal.SIGTERM)
    finally:
        running.clean()


@pytest.fixture(scope="session")
def base_url(gepard: Gepard) -> str:
    return f"{gepard.await_banner()}/v1"


@pytest.fixture(scope="session")
def openai_client(base_url: str) -> Iterator[OpenAI]:
    """The SDK as users set it up: nothing but the address is changed."""
    with OpenAI(base_url=base_url, api_key="none") as client:
        yield client


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Show the end of the stack's log with a failed test."""
    report = yield
    gepard = getattr(item, "funcargs", {}).get("gepard")
    if report.failed and gepard is not None:
        report.sections.append(("log of gepard serve", gepard.log[-_LOG_TAIL_CHARS:]))
    return report
