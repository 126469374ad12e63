"""The embedded engine, started once for all tests of this folder."""

import asyncio
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from shared.contracts import Boundary, PresetVoice, Sampling, Segment
from workers.engines.base import PcmChunk, SynthesisRequest
from workers.engines.hibari import HibariEngine

Speak = Callable[..., list[PcmChunk]]


def request(text: str, voice: str = "heart", *, boundary: Boundary = "end", seed: int = 1) -> SynthesisRequest:
    return SynthesisRequest(
        segment=Segment(text=text, boundary=boundary),
        voice=PresetVoice(name=voice),
        language=None,
        seed=seed,
        sampling=Sampling(),
    )


def joined(chunks: list[PcmChunk]) -> NDArray[np.float32]:
    return np.concatenate([chunk.samples for chunk in chunks])


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
