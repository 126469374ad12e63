"""The embedded engine, started once for all tests of this folder."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.support.synthesis import request
from workers.engines.base import PcmChunk
from workers.engines.hibari import HibariEngine

Speak = Callable[..., list[PcmChunk]]


@pytest.fixture(scope="module")
def engine() -> Iterator[HibariEngine]:
    """Started; it belongs to no event loop."""
    engine = HibariEngine(num_threads=2)
    asyncio.run(engine.start())
    yield engine
    asyncio.run(engine.stop())


@pytest.fixture
def speak(engine: HibariEngine) -> Speak:
    """Say a text; the chunks."""

    def speak_all(text: str, voice: str = "heart", **options: object) -> list[PcmChunk]:
        async def collect() -> list[PcmChunk]:
            return [chunk async for chunk in engine.synthesize(request(text, voice, **options))]

        return asyncio.run(collect())

    return speak_all
