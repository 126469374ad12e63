"""One real stack for all conformance tests: Valkey, a worker with the embedded engine, a gateway."""

from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.support.processes import Processes, running_processes
from tests.support.valkey import running_valkey

_LOG_TAIL_CHARS = 4000


@pytest.fixture(scope="session")
def gepard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """The running stack. It has a Valkey of its own, since other tests empty theirs."""
    with (
        running_valkey(tmp_path_factory.mktemp("v")) as redis_url,
        running_processes(redis_url, tmp_path_factory.mktemp("gepard")) as processes,
    ):
        yield processes


@pytest.fixture(scope="session")
def base_url(gepard: Processes) -> str:
    return f"{gepard.url}/v1"


@pytest.fixture(scope="session")
def openai_client(base_url: str) -> Iterator[OpenAI]:
    """The SDK as users set it up: nothing but the address is changed."""
    with OpenAI(base_url=base_url, api_key="none") as client:
        yield client


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Show the end of the stack's logs with a failed test."""
    report = yield
    processes = item.funcargs.get("gepard") if hasattr(item, "funcargs") else None
    if report.failed and processes is not None:
        for part, log in processes.logs().items():
            report.sections.append((f"log of the {part}", log[-_LOG_TAIL_CHARS:]))
    return report
