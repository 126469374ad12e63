"""A gateway with one worker that speaks in tones, different for each clip."""

import pytest

from tests.support.clips import speech, wav
from tests.support.engines import ToneEngine, engine_info
from tests.support.stack import running_stack
from tests.support.voices import Api


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


@pytest.fixture(scope="session")
def ann() -> bytes:
    """A clip, as wav."""
    return wav(speech(2.0, pitch_hz=110))


@pytest.fixture(scope="session")
def bob() -> bytes:
    """Another one."""
    return wav(speech(2.0, pitch_hz=170))
