"""The Gepard engine with the tiny model: its noise is no speech, so counts, bits and places are checked."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from msgspec.structs import replace as replace_struct

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")

from shared.contracts import PresetVoice, Sampling
from shared.errors import EngineError, EngineLost
from tests.support.synthesis import joined, request
from tests.support.tiny_gepard import VOICES, clip_of, tiny_engine
from tests.support.waiting import eventually
from workers.engines.base import SpeakerProfile
from workers.engines.gepard_speech import HELD_BELOW_TOKENS, retry_seed
from workers.engines.hibari_finish import PAUSE_S
from workers.gepard.config import MAX_REFERENCE_S
from workers.gepard.sampling import SamplingParams
from workers.host.requests import sampling_params

SAMPLES_PER_FRAME = 1024
STEP = 1 / 32768
"""Of 16 bits: sound that differs by float32 rounding may round to the next one."""
PAUSE = round(PAUSE_S["end"] * 22050)
LONG = "A sentence that is long enough to be sent as it comes."  # 54 tokens of the tiny tokenizer
SHORT = "Hi you"
JUST_LONG = "Xylophonequartzvexedbyjumps"  # one word of more than 13 tokens: held no more, its cap small


@pytest.fixture(scope="module")
def loop():
    """One loop for the module: a running engine answers on any, this only keeps the tests short."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def engine(loop, tmp_path_factory):
    engine = tiny_engine(tmp_path_factory.mktemp("gepard"))
    loop.run(engine.start())
    yield engine
    loop.run(engine.stop())


def asking(text=LONG, voice="alloy", *, seed=1, resume=b"", **knobs):
    """A request that ends after 20 frames unless told otherwise."""
    knobs = {"max_frames": 20, "stop_threshold": 1.0, **knobs}
    asked = replace(request(text, seed=seed), sampling=Sampling(**knobs), resume=resume)
    return replace(asked, voice=PresetVoice(name=voice) if isinstance(voice, str) else voice)


async def spoken(engine, asked):
    return [chunk async for chunk in engine.synthesize(asked)]


def codes_of(chunks):
    return b"".join(chunk.resume for chunk in chunks)


@pytest.fixture
def speak(engine, loop):
    return lambda *args, **kwargs: loop.run(spoken(engine, asking(*args, **kwargs)))


# --- What comes -------------------------------------------------------------------------------------------


def test_chunks_account_for_every_frame_token_and_code(speak):
    chunks = speak()
    assert sum(chunk.frames for chunk in chunks) == 20
    assert [len(chunk.samples) for chunk in chunks] == [1024 * chunk.frames for chunk in chunks[:-1]] + [PAUSE]
    assert [len(chunk.resume) for chunk in chunks] == [32 * chunk.frames for chunk in chunks]
    assert [chunk.text_tokens for chunk in chunks][1:] == [0] * (len(chunks) - 1)
    assert 13 <= chunks[0].text_tokens <= len(LONG)
    assert joined(chunks).dtype == np.float32
    assert np.abs(joined(chunks)).max() <= 1


def test_text_without_anything_to_speak_gives_no_chunk(speak):
    assert speak("") == []


def test_a_pause_that_the_text_sets_replaces_its_own(engine, loop):
    asked = asking()
    for pause_ms, samples in ((None, PAUSE), (0, 0), (2000, 0)):
        segment = replace_struct(asked.segment, pause_ms=pause_ms)
        chunks = loop.run(spoken(engine, replace(asked, segment=segment)))
        assert len(chunks[-1].samples) == samples
        assert sum(chunk.frames for chunk in chunks) == 20


@pytest.mark.parametrize("frames", [1, 2, 3, 16, 17])
def test_a_limit_of_the_request_ends_the_speech_there(speak, frames):
    assert sum(chunk.frames for chunk in speak(max_frames=frames)) == frames
    assert sum(chunk.frames for chunk in speak(force_stop_frames=frames)) == frames


def test_the_speech_ends_where_the_model_says_so(speak):
    always = speak(stop_threshold=0.0)
    assert sum(chunk.frames for chunk in always) == 1


def test_knobs_of_a_request_become_the_models_and_the_others_keep_its_defaults():
    defaults = SamplingParams(max_frames=100)
    assert sampling_params(Sampling(), frame_cap=100) == defaults
    knobs = {
        "temperature": 0.7,
        "top_k": 5,
        "repetition_penalty": 1.2,
        "repetition_window": 9,
        "cfg_scale": 2.5,
        "cfg_frames": 3,
        "cfg_uncond_mode": "audio_only",
        "stop_threshold": 0.6,
        "max_frames": 40,
        "force_stop_frames": 30,
    }
    assert set(knobs) == set(Sampling.__struct_fields__)
    assert sampling_params(Sampling(**knobs), frame_cap=100) == SamplingParams(**knobs)
    assert sampling_params(Sampling(max_frames=10**9), frame_cap=100) == defaults


@pytest.mark.parametrize(
    "knobs",
    [
        {"temperature": 0.0},
        {"top_k": 1},
        {"repetition_penalty": 5.0},
        {"cfg_scale": 3.0},
        {"cfg_scale": 3.0, "cfg_frames": 2},
        {"cfg_scale": 3.0, "cfg_uncond_mode": "audio_only"},
    ],
    ids=str,
)
def test_every_knob_is_heard(speak, knobs):
    assert codes_of(speak(**{"temperature": 1.0, **knobs})) != codes_of(speak(temperature=1.0))


def test_a_guidance_of_one_is_no_guidance(speak):
    assert codes_of(speak(cfg_scale=1.0)) == codes_of(speak())


# --- The same request, the same speech -----------------------------------------------------------------------


def test_a_seed_decides_and_so_does_the_voice(speak):
    first = codes_of(speak(temperature=1.0))
    assert codes_of(speak(temperature=1.0)) == first
    assert codes_of(speak(temperature=1.0, seed=2)) != first
    assert codes_of(speak(temperature=1.0, voice="rowan")) != first


def test_a_request_among_fifteen_others_is_the_same_as_alone(engine, loop):
    asked = asking(temperature=1.0, cfg_scale=2.0, max_frames=30)
    alone = loop.run(spoken(engine, asked))

    async def crowd():
        others = [asking(f"Other number {n}. {LONG}", VOICES[n % 3], seed=n, max_frames=10 + n) for n in range(15)]
        tasks = [asyncio.create_task(spoken(engine, other)) for other in others[:8]]
        await asyncio.sleep(0.05)
        mine = asyncio.create_task(spoken(engine, asked))
        await asyncio.sleep(0.05)
        tasks += [asyncio.create_task(spoken(engine, other)) for other in others[8:]]
        await asyncio.gather(*tasks)
        return await mine

    among = loop.run(crowd())
    assert codes_of(among) == codes_of(alone)
    assert np.abs(joined(among) - joined(alone)).max() <= STEP


def test_speech_continues_from_the_codes_of_an_earlier_attempt(speak):
    whole = speak(temperature=1.0)
    resumed = speak(temperature=1.0, resume=codes_of(whole[:3]))
    assert codes_of(resumed) == codes_of(whole)
    assert np.abs(joined(resumed) - joined(whole)).max() <= STEP


def test_given_codes_win_over_the_seed(speak):
    whole = speak(temperature=1.0)
    resumed = speak(temperature=1.0, seed=99, resume=codes_of(whole[:3]))
    assert codes_of(resumed).startswith(codes_of(whole[:3]))
    assert codes_of(resumed) != codes_of(whole)


@pytest.mark.parametrize("resume", [b"\x00" * 31, b"\xff" * 32, b"\x00" * 32 * 21], ids=["cut", "range", "many"])
def test_codes_that_cannot_be_are_an_error_of_the_request(speak, resume):
    with pytest.raises(EngineError):
        speak(resume=resume)


# --- Runaways -----------------------------------------------------------------------------------------------


def test_a_short_text_that_runs_away_is_tried_once_more_with_another_seed(speak):
    chunks = speak(SHORT, max_frames=None, temperature=1.0, stop_threshold=0.999999)
    assert chunks[-1].runaways == 2
    assert {chunk.runaways for chunk in chunks[:-1]} == {0}
    second = speak(SHORT, temperature=1.0, seed=retry_seed(1, 1))
    assert codes_of(second) == codes_of(chunks)[: 20 * 32]


def test_a_long_text_that_runs_away_is_counted_and_not_tried_again(speak):
    chunks = speak(JUST_LONG, max_frames=None, stop_threshold=0.999999)
    assert chunks[0].text_tokens >= HELD_BELOW_TOKENS
    assert chunks[-1].runaways == 1
    assert codes_of(speak(JUST_LONG, max_frames=20)) == codes_of(chunks)[: 20 * 32]


@pytest.mark.parametrize("knobs", [{"max_frames": 5}, {"force_stop_frames": 5}, {"stop_threshold": 1.0}], ids=str)
def test_an_end_that_the_request_asked_for_is_no_runaway(speak, knobs):
    asked = {"max_frames": None, "stop_threshold": 0.999999, **knobs}
    assert speak(SHORT, **asked)[-1].runaways == 0


def test_a_very_short_text_is_held_until_it_has_ended(engine, loop):
    async def streams_at_first_chunk(text):
        chunks = engine.synthesize(asking(text, max_frames=60))
        await anext(chunks)
        running = engine.steps.num_streams
        await chunks.aclose()
        return running

    assert loop.run(streams_at_first_chunk(SHORT)) == 0
    assert loop.run(streams_at_first_chunk(LONG)) == 1


# --- Places -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["close", "cancel"])
def test_a_stream_that_is_left_frees_its_places(engine, loop, by):
    steps = engine.steps

    async def leave():
        generator = engine.synthesize(asking(max_frames=2000, text=LONG * 3))
        if by == "close":
            await anext(generator)
            await generator.aclose()
        else:
            task = asyncio.create_task(spoken(engine, asking(max_frames=2000, text=LONG * 3)))
            await eventually(lambda: steps.num_streams == 1)
            task.cancel()
            await asyncio.wait([task])
        await eventually(lambda: steps.num_streams == 0)

    loop.run(leave())
    assert engine.num_free_slots == 16


def test_more_streams_than_places_are_refused_and_the_others_go_on(engine, loop):
    async def crowd():
        asked = [asking(seed=n, max_frames=60) for n in range(17)]
        return await asyncio.gather(*(spoken(engine, one) for one in asked), return_exceptions=True)

    results = loop.run(crowd())
    assert [isinstance(result, EngineError) for result in results].count(True) == 1
    assert "16 streams" in str(results[-1])


def test_the_event_loop_is_free_while_streams_run(engine, loop):
    async def longest_wait():
        tasks = [asyncio.create_task(spoken(engine, asking(seed=n, max_frames=40))) for n in range(8)]
        longest = 0.0
        while not all(task.done() for task in tasks):
            began = asyncio.get_running_loop().time()
            await asyncio.sleep(0.001)
            longest = max(longest, asyncio.get_running_loop().time() - began)
        return longest

    assert loop.run(longest_wait()) < 0.5


# --- Voices -------------------------------------------------------------------------------------------------


def test_a_clip_becomes_a_voice(engine, speak, loop):
    profile = loop.run(engine.profile(clip_of(150)))
    assert profile.kind == "cloned"
    assert profile.fits(engine.info)
    assert loop.run(engine.profile(clip_of(150))) == profile
    again = SpeakerProfile.from_bytes(profile.to_bytes())
    assert codes_of(speak(voice=again)) == codes_of(speak(voice=profile)) != codes_of(speak())


def test_a_starter_voice_speaks_like_a_profile_of_its_clip(engine, speak, loop):
    # Through the file: a wav has 16 bits.
    clip = clip_of(100)
    clip = replace(clip, samples=(np.round(clip.samples * 32767) / 32768).astype(np.float32))
    assert codes_of(speak(voice=loop.run(engine.profile(clip)))) == codes_of(speak(voice="alloy"))


def test_of_a_long_clip_fifteen_seconds_are_used(engine, loop):
    long = clip_of(150, seconds=MAX_REFERENCE_S + 5)
    cut = replace(long, samples=long.samples[: int(MAX_REFERENCE_S * long.rate_hz)])
    assert loop.run(engine.profile(long)) == loop.run(engine.profile(cut))


def test_a_voice_that_is_not_there_is_an_error_and_no_default(speak, engine, loop):
    with pytest.raises(EngineError, match="no starter voice 'heart'"):
        speak(voice="heart")
    profile = loop.run(engine.profile(clip_of(150)))
    with pytest.raises(EngineError, match="another model"):
        speak(voice=replace(profile, model_revision="other"))
    with pytest.raises(EngineError, match="damaged"):
        speak(voice=replace(profile, payload=profile.payload[:-4]))
    with pytest.raises(EngineError, match="damaged"):
        speak(voice=replace(profile, payload=b"\xff" * len(profile.payload)))


# --- What it says of itself ---------------------------------------------------------------------------------


def test_it_says_what_it_can(engine):
    info = engine.info
    assert (info.model, info.sample_rate_hz, info.capacity) == ("gepard", 22050, 16)
    assert info.frame_s == SAMPLES_PER_FRAME / 22050
    assert (info.can_clone, info.can_guide, info.can_resume) == (True, True, True)
    assert {preset.name for preset in info.presets} == set(VOICES)
    assert info.revision
    assert info.compressor_revision
    assert info.text_budget.minimum >= 50


# --- Failures -----------------------------------------------------------------------------------------------


async def test_a_step_that_fails_ends_the_host_and_its_streams_may_go_on_elsewhere(tmp_path, monkeypatch):
    engine = tiny_engine(tmp_path)
    await engine.start()
    monkeypatch.setattr(engine.thread_host.model.backend, "step", lambda: 1 / 0)
    with pytest.raises(EngineLost):
        await spoken(engine, asking())
    assert isinstance(engine.thread_host.failure, ZeroDivisionError)
    assert not engine.is_available
    assert engine.host is None
    with pytest.raises(EngineLost):
        await spoken(engine, asking())
    with pytest.raises(EngineLost):
        await engine.profile(clip_of(150))
    await engine.stop()


async def test_an_engine_that_stops_tells_its_streams(tmp_path):
    engine = tiny_engine(tmp_path)
    with pytest.raises(EngineError, match="not started"):
        _ = engine.info
    await engine.start()
    chunks = engine.synthesize(asking(max_frames=2000, text=LONG * 3))
    await anext(chunks)
    await engine.stop()
    with pytest.raises(EngineLost, match="the worker stops"):
        async for _ in chunks:
            pass
    with pytest.raises(EngineError, match="not started"):
        await spoken(engine, asking())
