"""The Gepard engine with the tiny model on an NVIDIA GPU: the promises that a device could break."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")

from shared.contracts import Sampling
from tests.support.synthesis import joined, request
from tests.support.tiny_gepard import VOICES, clip_of, tiny_engine
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU"),
]

TEXT = "A sentence that is long enough to be sent as it comes."


@pytest.fixture(params=["float32", "bfloat16"])
async def engine(request, tmp_path):
    engine = tiny_engine(tmp_path, device="cuda", dtype=request.param)
    await engine.start()
    yield engine
    await engine.stop()


def asking(text=TEXT, voice="alloy", *, seed=1, frames=30, **knobs):
    sampling = Sampling(max_frames=frames, stop_threshold=1.0, temperature=1.0, **knobs)
    return replace(request(text, voice, seed=seed), sampling=sampling)


async def spoken(engine, asked):
    return [chunk async for chunk in engine.synthesize(asked)]


def codes_of(chunks):
    return b"".join(chunk.resume for chunk in chunks)


async def test_a_request_among_fifteen_others_is_the_same_as_alone(engine):
    asked = asking(cfg_scale=2.0)
    alone = await spoken(engine, asked)
    others = [asking(f"Other number {n}. {TEXT}", VOICES[n % 3], seed=n, frames=10 + n) for n in range(15)]
    among, *_ = await asyncio.gather(spoken(engine, asked), *(spoken(engine, other) for other in others))
    assert codes_of(among) == codes_of(alone)
    assert np.abs(joined(among) - joined(alone)).max() <= 1 / 32768


async def test_speech_continues_from_the_codes_of_an_earlier_attempt(engine):
    whole = await spoken(engine, asking())
    resumed = await spoken(engine, replace(asking(), resume=codes_of(whole[:3])))
    assert codes_of(resumed) == codes_of(whole)
    assert np.abs(joined(resumed) - joined(whole)).max() <= 1 / 32768


async def test_a_clip_becomes_a_voice_while_others_speak(engine):
    running = [asyncio.create_task(spoken(engine, asking(seed=seed))) for seed in range(4)]
    profile = await engine.profile(clip_of(150))
    assert await engine.profile(clip_of(150)) == profile
    assert codes_of(await spoken(engine, replace(asking(), voice=profile))) != codes_of(await spoken(engine, asking()))
    await asyncio.gather(*running)


async def test_a_stream_that_is_left_frees_its_places(engine):
    steps = engine.steps
    chunks = engine.synthesize(asking(TEXT * 3, frames=2000))
    await anext(chunks)
    await chunks.aclose()
    await eventually(lambda: steps.num_streams == 0)
    assert engine.num_free_slots == 16
