"""The embedded engine behind the seam: same request same sound, bounded pieces, fair turns, quick cancels."""

import asyncio
import hashlib
import subprocess
import sys
import time

import numpy as np
import pytest

from shared.errors import EngineError
from tests.support.synthesis import joined, request
from workers.engines.hibari import HibariEngine
from workers.engines.hibari_finish import PAUSE_S

RATE_HZ = 24000
LONG_TEXT = "word " * 600


def silence_ms(samples):
    """Milliseconds below -54 dBFS at the head and at the tail."""
    sounding = np.flatnonzero(np.abs(samples) > 2e-3)
    return sounding[0] / RATE_HZ * 1000, (len(samples) - 1 - sounding[-1]) / RATE_HZ * 1000


@pytest.fixture
def model_calls(engine, monkeypatch):
    """A list that grows by one with each call of the network."""
    calls = []
    network = engine._model._hibari.sess

    class CountingNetwork:
        def run(self, *arguments):
            calls.append(1)
            return network.run(*arguments)

    monkeypatch.setattr(engine._model._hibari, "sess", CountingNetwork())
    return calls


def test_info_names_what_it_can_do(engine):
    info = engine.info
    assert (info.model, info.sample_rate_hz, info.frame_s) == ("hibari", RATE_HZ, 0.0125)
    assert (info.can_clone, info.can_guide, info.can_resume) == (False, False, True)
    assert len({preset.name for preset in info.presets}) == len(info.presets) >= 13
    assert "heart" in {preset.name for preset in info.presets}
    assert info.capacity >= 32


@pytest.mark.parametrize("voice", ["heart", "maple"])
def test_the_same_request_gives_the_same_samples(speak, voice):
    text = "She sells sea shells. They shine."
    once, again, other = (joined(speak(text, voice, seed=seed)) for seed in (7, 7, 8))
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, other)


SPEAK_ELSEWHERE = """
import asyncio, hashlib
from tests.support.synthesis import request
from workers.engines.hibari import HibariEngine

async def main():
    engine = HibariEngine(num_threads=1)
    await engine.start()
    for voice in ("heart", "maple"):
        async for chunk in engine.synthesize(request("She sells sea shells. They shine.", voice, seed=7)):
            print(hashlib.sha256(chunk.samples.tobytes()).hexdigest())
    await engine.stop()

asyncio.run(main())
"""


def test_another_process_gives_the_same_samples(speak):
    """Else a reply could not go on at another worker."""
    here = [
        hashlib.sha256(chunk.samples.tobytes()).hexdigest()
        for voice in ("heart", "maple")
        for chunk in speak("She sells sea shells. They shine.", voice, seed=7)
    ]
    there = subprocess.run(
        [sys.executable, "-c", SPEAK_ELSEWHERE], capture_output=True, check=True, text=True, timeout=60
    )
    assert there.stdout.split() == here


@pytest.mark.parametrize("seed", [0, -1, 2**63, 2**64 + 5])
def test_any_whole_number_is_a_seed(speak, seed):
    assert speak("Hi.", seed=seed)


def test_many_at_once_sound_as_each_alone(engine, speak):
    texts = [f"This is sentence number {number}." for number in range(12)]
    voices = [preset.name for preset in engine.info.presets][: len(texts)]

    async def together():
        async def one(text, voice):
            return [chunk async for chunk in engine.synthesize(request(text, voice))]

        return await asyncio.gather(*map(one, texts, voices))

    for chunks, text, voice in zip(asyncio.run(together()), texts, voices, strict=True):
        np.testing.assert_array_equal(joined(chunks), joined(speak(text, voice)))


@pytest.mark.parametrize("text", ["Hi.", "How are you?", "She had half of it.", "Five thin things."])
def test_head_silence_is_about_20_ms(speak, text):
    """The network's own 300 ms would be heard as latency."""
    head_ms, _ = silence_ms(joined(speak(text)))
    assert 8 <= head_ms <= 35


@pytest.mark.parametrize("boundary", ["clause", "sentence", "paragraph", "end"])
def test_the_boundary_decides_the_pause(speak, boundary):
    (chunk,) = speak("The sun rose", boundary=boundary)
    _, tail_ms = silence_ms(chunk.samples)
    assert PAUSE_S[boundary] * 1000 <= tail_ms <= PAUSE_S[boundary] * 1000 + 45
    assert len(chunk.samples) == 300 * chunk.frames + round(PAUSE_S[boundary] * RATE_HZ)


def test_sentences_of_one_segment_are_a_sentence_apart(speak):
    first, second = speak("The sun rose. We left.", boundary="paragraph")
    assert len(first.samples) - 300 * first.frames == round(PAUSE_S["sentence"] * RATE_HZ)
    assert len(second.samples) - 300 * second.frames == round(PAUSE_S["paragraph"] * RATE_HZ)


def test_tokens_are_phonemes_and_frames_are_heard_speech(speak):
    (chunk,) = speak("Thank you.")
    assert 8 <= chunk.text_tokens <= 12
    assert 0.3 < chunk.frames * 0.0125 < 0.8


@pytest.mark.parametrize("text", ["", "  ", "...", "?!", "\u2014", "\n\n", "\U0001f600", "\u4f60\u597d"])
def test_text_with_nothing_to_speak_gives_no_chunk(speak, text):
    assert speak(text) == []


@pytest.mark.parametrize(
    "text",
    [LONG_TEXT, "Z" + "O" * 600 + "M", "a" * 4000, "7" * 80, "1," * 60, "x-" * 300, "Stop" + "!" * 2000],
    ids=["words", "shout", "letter", "digits", "list", "hyphens", "marks"],
)
def test_no_text_makes_one_huge_piece(engine, text):
    """600 words without a comma were one call of ten seconds."""

    async def first_chunks():
        chunks = []
        async for chunk in engine.synthesize(request(text)):
            chunks.append(chunk)
            if len(chunks) == 4:
                break
        return chunks

    for chunk in asyncio.run(first_chunks()):
        assert chunk.text_tokens <= 200
        assert len(chunk.samples) < 20 * RATE_HZ


def test_a_cancel_stops_within_one_model_call(engine, model_calls):
    async def cancel_after_two():
        got = asyncio.Event()

        async def consume():
            async for _ in engine.synthesize(request(LONG_TEXT)):
                if len(model_calls) >= 2:
                    got.set()

        task = asyncio.create_task(consume())
        await got.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        at_cancel = len(model_calls)
        await asyncio.sleep(0.5)
        return at_cancel, len(model_calls)

    at_cancel, in_the_end = asyncio.run(cancel_after_two())
    assert in_the_end <= at_cancel + 1


def test_closing_the_iterator_stops_it(engine, model_calls):
    async def take_one():
        chunks = engine.synthesize(request(LONG_TEXT))
        await anext(chunks)
        await chunks.aclose()
        await asyncio.sleep(0.3)

    asyncio.run(take_one())
    assert len(model_calls) == 1


def test_a_cancelled_request_in_the_queue_never_runs(model_calls, engine):
    async def cancel_while_queued():
        async def consume(text):
            return [chunk async for chunk in engine.synthesize(request(text))]

        busy = [asyncio.create_task(consume("A rod is used to catch pink salmon.")) for _ in range(4)]
        await asyncio.sleep(0)
        late = asyncio.create_task(consume("Never."))
        await asyncio.sleep(0)
        late.cancel()
        await asyncio.gather(*busy)

    asyncio.run(cancel_while_queued())
    assert len(model_calls) == 4


def test_a_new_request_is_served_between_the_pieces_of_old_ones(engine):
    """First chunk of a new request before the tenth chunk, here the third, of an old one."""

    async def order():
        served = []

        async def consume(name, text):
            async for _ in engine.synthesize(request(text)):
                served.append(name)  # noqa: PERF401 - one at a time: the order is the point

        old = [asyncio.create_task(consume(name, LONG_TEXT)) for name in range(6)]
        while len(served) < 6:
            await asyncio.sleep(0.01)
        before = {name: served.count(name) for name in range(6)}
        await consume("new", "Hi.")
        for task in old:
            task.cancel()
        await asyncio.gather(*old, return_exceptions=True)
        return [served[: served.index("new")].count(name) - before[name] for name in range(6)]

    assert max(asyncio.run(order())) <= 3


def test_synthesis_does_not_block_the_event_loop(engine):
    async def lags_s():
        lags = []

        async def consume(voice):
            async for chunk in engine.synthesize(request("The box was thrown beside the parked truck. " * 5, voice)):
                assert len(chunk.samples)

        speaking = asyncio.gather(*(consume(voice) for voice in ("heart", "maple", "finch")))
        while not speaking.done():
            began = time.perf_counter()
            await asyncio.sleep(0.002)
            lags.append(time.perf_counter() - began - 0.002)
        await speaking
        return lags

    lags = asyncio.run(lags_s())
    assert len(lags) > 20
    # One call of the network takes 100 ms: a loop that waited for it would show in most of the lags. Single
    # ones are the machine's.
    assert np.percentile(lags, 90) < 0.05


def test_an_unknown_preset_is_named_with_those_there_are(speak):
    with pytest.raises(EngineError, match=r"'emma'.*heart"):
        speak("Hi.", "emma")


def test_a_failing_network_is_an_engine_error_that_quotes_no_text(engine, speak, monkeypatch):
    class FailingNetwork:
        def run(self, *arguments):
            raise ValueError("secret text")

    monkeypatch.setattr(engine._model._hibari, "sess", FailingNetwork())
    with pytest.raises(EngineError) as caught:
        speak("Secret text.")
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


async def test_an_engine_that_is_not_running_says_so():
    with pytest.raises(EngineError, match="not started"):
        await anext(HibariEngine().synthesize(request("Hi.")))
