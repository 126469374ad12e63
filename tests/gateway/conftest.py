"""A gateway with one worker that plays tones."""

import pytest
import pytest_asyncio
from redis import Redis

from tests.conftest import tone_settings
from tests.support.engines import ToneEngine
from tests.support.stack import running_stack


@pytest.fixture
def engine():
    return ToneEngine()


@pytest.fixture
async def stack(settings, engine):
    """A stack of the test's own, whose engine it may hold up or break."""
    async with running_stack(settings, engine) as stack:
        yield stack


@pytest.fixture
async def client(stack):
    async with stack.client() as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_stack(valkey_url, tmp_path_factory):
    """A stack for the tests of a module that only ask; with its engine as `engine`."""
    with Redis.from_url(valkey_url) as redis:
        redis.flushall()
    engine = ToneEngine(chunk_chars=50)
    async with running_stack(tone_settings(valkey_url, tmp_path_factory.mktemp("data")), engine) as stack:
        stack.engine = engine
        yield stack


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_client(shared_stack):
    async with shared_stack.client() as client:
        yield client
