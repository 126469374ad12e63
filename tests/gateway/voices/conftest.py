"""A gateway with one worker that speaks in tones, different for each clip."""

import pytest
import pytest_asyncio
from msgspec.structs import replace
from redis import Redis

from shared.settings import DatabaseSettings
from tests.conftest import tone_settings
from tests.support.clips import speech, wav
from tests.support.databases import empty_database
from tests.support.engines import ToneEngine, engine_info
from tests.support.stack import running_stack
from tests.support.voices import Api

_ON_BOTH_DATABASES = {"test_consents", "test_life", "test_many_at_once", "test_ownership"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what the database decides on both."""
    if metafunc.module.__name__.rpartition(".")[2] in _ON_BOTH_DATABASES and "settings" in metafunc.fixturenames:
        metafunc.parametrize("settings", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def settings(request, redis_url, tmp_path):
    settings = tone_settings(redis_url, tmp_path)
    if getattr(request, "param", "sqlite") == "sqlite":
        yield settings
        return
    with empty_database(request.getfixturevalue("postgres_url")) as url:
        text = url.render_as_string(hide_password=False)
        yield replace(settings, database=DatabaseSettings(url=text))


@pytest.fixture
def engine():
    return ToneEngine(engine_info(can_match=True), chunk_chars=50)


@pytest.fixture
async def stack(settings, engine):
    async with running_stack(settings, engine) as stack:
        stack.engine = engine
        yield stack


@pytest.fixture
async def api(stack):
    async with stack.client() as client:
        yield Api(client)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_stack(valkey_url, tmp_path_factory):
    """A stack for the tests of a module that leave nothing behind."""
    with Redis.from_url(valkey_url) as redis:
        redis.flushall()
    engine = ToneEngine(engine_info(can_match=True), chunk_chars=50)
    async with running_stack(tone_settings(valkey_url, tmp_path_factory.mktemp("data")), engine) as stack:
        stack.engine = engine
        yield stack


@pytest.fixture(scope="session")
def ann() -> bytes:
    """A clip, as wav."""
    return wav(speech(2.0, pitch_hz=110))


@pytest.fixture(scope="session")
def bob() -> bytes:
    """Another one."""
    return wav(speech(2.0, pitch_hz=170))
