"""The worker: hand-over, wake, cancellation, draining, failures."""

import asyncio
import statistics
import time

import numpy as np
import pytest
from msgspec.structs import replace

from shared.broker import keys
from shared.broker.heartbeat import Fleet
from shared.clip import Clip
from shared.contracts import HANDED_BACK, Audio, Done, Failed, ProfileJob, ResumePoint, Segment, Started
from shared.errors import EngineBroken, EngineError, EngineLost
from shared.settings import WorkerSettings
from tests.support.engines import ToneEngine, engine_info, tone
from tests.support.jobs import speech_job
from tests.support.waiting import eventually
from tests.support.workers import Asker, audio_of, running_worker
from voices.profile_cache import ProfileCache
from workers.worker import run_worker


@pytest.fixture
async def asker(redis_url):
    asker = Asker(redis_url, max_connections=1200)
    yield asker
    await asker.redis.aclose(close_connection_pool=True)


def held(request, index):
    """A step that never ends: the stream keeps running."""
    return asyncio.sleep(3600)


def held_if_marked(request, index):
    """Hold the streams whose text is 'hold'."""
    return asyncio.sleep(3600) if request.segment.text == "hold" else None


def holding_job(name: str):
    return speech_job(name, segments=(Segment(text="hold", boundary="end"),))


async def test_a_job_is_answered_with_started_audio_in_order_and_done(asker, settings):
    async with running_worker(ToneEngine(), settings):
        events = await asker.ask(speech_job("a"))
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Done)
    assert [event.seq for event in events[1:-1]] == list(range(len(events) - 2))
    assert len(audio_of(events)) == 3 * 1200 * 2
    assert (events[-1].usage.input_tokens, events[-1].usage.output_tokens) == (3, 15)


async def test_the_same_seed_gives_the_same_bytes_and_another_one_others(asker, settings):
    async with running_worker(ToneEngine(), settings):
        first, second, other = [
            audio_of(await asker.ask(speech_job(name, seed=seed))) for name, seed in (("a", 1), ("b", 1), ("c", 2))
        ]
    assert first == second
    assert first != other


async def test_a_new_job_wakes_the_worker_instead_of_waiting_for_the_next_poll(asker, settings):
    settings = replace(settings, worker=WorkerSettings(poll_delay_s=30, drain_s=0))
    async with running_worker(ToneEngine(), settings):
        await asker.ask(speech_job("warm"))
        await asyncio.wait_for(asker.ask(speech_job("a")), 5)


async def test_a_freed_place_wakes_a_full_worker(asker, settings):
    settings = replace(settings, worker=WorkerSettings(poll_delay_s=30, drain_s=0))
    release = asyncio.Event()
    engine = ToneEngine(engine_info(capacity=1), step=lambda request, index: release.wait())
    async with running_worker(engine, settings):
        await asker.first_event(speech_job("a"))
        await asker.queue.enqueue(speech_job("b"))
        await asyncio.sleep(0.1)
        assert await asker.queue.state(speech_job("b")) == "waiting"
        release.set()
        assert isinstance((await asker.read_all(speech_job("b")))[-1], Done)


async def test_pick_up_with_512_running_streams_is_as_fast_as_with_none(asker, settings):
    """arq alone re-checks each running job on every poll: 276 ms at 512."""

    async def median_pick_up_s(label: str) -> float:
        times = []
        for index in range(15):
            began = time.perf_counter()
            await asker.first_event(speech_job(f"{label}{index}"))
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    engine = ToneEngine(engine_info(capacity=600), step=held_if_marked)
    async with running_worker(engine, replace(settings, worker=WorkerSettings(drain_s=0))):
        alone = await median_pick_up_s("alone")
        for index in range(512):
            await asker.queue.enqueue(holding_job(f"held{index}"))
        await eventually(lambda: engine.running == 512, within_s=30)
        assert await asker.redis.zcard(keys.queue("tone")) == 0
        loaded = await median_pick_up_s("loaded")
    assert loaded < 2 * alone + 0.005


async def test_a_free_worker_starts_a_job_while_another_is_full(asker, settings):
    full, free = ToneEngine(engine_info(capacity=2), step=held), ToneEngine()
    settings = replace(settings, worker=WorkerSettings(drain_s=0))
    async with running_worker(full, settings):
        for name in ("a", "b"):
            await asker.first_event(speech_job(name))
        async with running_worker(free, settings):
            for index in range(5):
                events = await asker.ask(speech_job(f"c{index}"))
                assert isinstance(events[-1], Done)
    assert len(full.requests) == 2


async def test_a_full_worker_leaves_jobs_in_the_queue(asker, settings):
    engine = ToneEngine(engine_info(capacity=2), step=held)
    async with running_worker(engine, replace(settings, worker=WorkerSettings(drain_s=0))):
        for index in range(6):
            await asker.queue.enqueue(speech_job(f"a{index}"))
        await eventually(lambda: engine.running == 2)
        await asyncio.sleep(0.1)
        assert engine.running == 2
        assert await asker.redis.zcard(keys.queue("tone")) == 4


async def test_a_cancelled_running_stream_stops_within_one_chunk_and_frees_its_place(asker, settings):
    engine = ToneEngine(engine_info(capacity=1), step=lambda request, index: asyncio.sleep(0.02))
    long_text = (Segment(text="x" * 500, boundary="end"),)
    job = speech_job("a", segments=long_text)
    async with running_worker(engine, settings):
        await asker.first_event(job)
        await eventually(lambda: engine.steps > 2)
        await asker.queue.cancel(job)
        await eventually(lambda: engine.running == 0, within_s=1)
        steps = engine.steps
        assert isinstance((await asker.ask(speech_job("b")))[-1], Done)
        assert engine.steps == steps + 3
    assert not await asker.redis.exists(keys.reply("a", 1))


async def test_a_cancelled_queued_job_never_starts(asker, settings):
    engine = ToneEngine(engine_info(capacity=1), step=held_if_marked)
    async with running_worker(engine, replace(settings, worker=WorkerSettings(drain_s=0))):
        await asker.first_event(holding_job("a"))
        await asker.queue.enqueue(speech_job("b"))
        await asker.queue.cancel(speech_job("b"))
        await asker.queue.cancel(holding_job("a"))
        assert isinstance((await asker.ask(speech_job("c")))[-1], Done)
    assert [request.segment.text for request in engine.requests] == ["hold", "abc"]


async def test_a_mark_alone_keeps_a_job_from_starting(asker, settings):
    """The cancel message was sent before the worker had registered the stream."""
    engine = ToneEngine()
    await asker.redis.set(keys.cancelled("a.1"), b"")
    async with running_worker(engine, settings):
        await asker.queue.enqueue(speech_job("a"))
        await eventually(lambda: _gone(asker, "a"))
        assert isinstance((await asker.ask(speech_job("b")))[-1], Done)
    assert len(engine.requests) == 1


async def _gone(asker, name):
    return await asker.queue.state(speech_job(name)) == "gone"


async def test_a_worker_stops_when_its_reply_was_deleted(asker, settings):
    engine = ToneEngine(step=lambda request, index: asyncio.sleep(0.01))
    job = speech_job("a", segments=(Segment(text="x" * 500, boundary="end"),))
    async with running_worker(engine, settings):
        await asker.first_event(job)
        await asker.reader(job).delete()
        await eventually(lambda: engine.running == 0, within_s=2)
    assert not await asker.redis.exists(keys.reply("a", 1))


async def test_nothing_of_a_finished_job_stays_but_its_reply(asker, settings):
    async with running_worker(ToneEngine(), settings):
        job = speech_job("a")
        await asker.ask(job)
        await eventually(lambda: _names_are(asker, {keys.reply("a", 1)}))
        assert await asker.redis.ttl(keys.reply("a", 1)) > 0


async def test_nothing_of_a_job_that_arq_gives_up_stays(asker, settings):
    """One whose worker died in the hand-over: arq would keep it for an hour as a failed result, with its text."""
    async with running_worker(ToneEngine(), settings):
        await asker.redis.set("arq:retry:a.1", 1)
        await asker.queue.enqueue(speech_job("a"))
        await eventually(lambda: _gone(asker, "a"))
        await eventually(lambda: _names_are(asker, set()))


async def _names_are(asker, expected):
    names = {key.decode() async for key in asker.redis.scan_iter()}
    return {name for name in names if not name.startswith(("gepard:heartbeat", "gepard:workers"))} == expected


async def test_a_failing_engine_ends_its_reply_with_a_plain_error_and_others_go_on(asker, settings):
    def step(request, index):
        if request.segment.text == "bad":
            raise EngineError("secret detail of the model")

    async with running_worker(ToneEngine(step=step), settings):
        failed = await asker.ask(speech_job("a", segments=(Segment(text="bad", boundary="end"),)))
        assert failed[-1] == Failed(code="engine_error", message="the speech engine failed on this request")
        assert isinstance((await asker.ask(speech_job("b")))[-1], Done)


async def test_an_unexpected_error_ends_only_its_own_reply(asker, settings):
    def step(request, index):
        if request.segment.text == "bad":
            raise ZeroDivisionError("secret")

    async with running_worker(ToneEngine(step=step), settings):
        failed = await asker.ask(speech_job("a", segments=(Segment(text="bad", boundary="end"),)))
        assert failed[-1] == Failed(code="internal_error", message="speech could not be made")
        assert isinstance((await asker.ask(speech_job("b")))[-1], Done)


async def test_a_broken_engine_ends_the_worker(asker, settings):
    def step(request, index):
        raise EngineBroken("device lost")

    async with running_worker(ToneEngine(step=step), settings) as worker:
        # Not its reply: that goes on elsewhere.
        assert (await asker.ask(speech_job("a")))[-1].code in HANDED_BACK
        await asyncio.wait([worker], timeout=5)
        assert isinstance(worker.exception(), EngineBroken)


async def test_while_its_model_is_away_a_worker_takes_nothing_and_says_so(asker, settings):
    engine = ToneEngine()
    async with running_worker(engine, settings):
        assert isinstance((await asker.ask(speech_job("a")))[-1], Done)
        engine.is_available = False
        await asyncio.sleep(0.1)  # it may be about to look at the queue
        await asker.queue.enqueue(speech_job("b"))
        fleet = Fleet(asker.redis)
        await eventually(lambda: accepts(fleet, expected=False))
        assert await asker.queue.state(speech_job("b")) == "waiting"
        engine.is_available = True
        assert isinstance((await asker.read_all(speech_job("b")))[-1], Done)
        await eventually(lambda: accepts(fleet, expected=True))


async def accepts(fleet, *, expected):
    await fleet.refresh()
    return [beat.accepting for beat in fleet.workers()] == [expected]


async def test_a_model_that_does_not_come_back_ends_the_worker(asker, settings):
    class Gone(ToneEngine):
        @property
        def is_available(self):
            if self.requests:
                raise EngineBroken("another model")
            return True

    async with running_worker(Gone(), settings) as worker:
        await asker.queue.enqueue(speech_job("a"))
        await asyncio.wait([worker], timeout=5)
        assert isinstance(worker.exception(), EngineBroken)


async def test_a_stream_whose_model_is_lost_is_handed_back(asker, settings):
    def step(request, index):
        raise EngineLost("killed")

    async with running_worker(ToneEngine(step=step), settings):
        assert (await asker.ask(speech_job("a")))[-1].code in HANDED_BACK


async def test_a_profile_whose_model_is_lost_is_handed_back(asker, settings):
    def step(clip):
        raise EngineLost("killed")

    engine = ToneEngine(engine_info(can_match=True), profile_step=step)
    clip = Clip(samples=np.ones(100, np.float32), rate_hz=24000)
    await ProfileCache(asker.redis).put_clip(clip)
    job = ProfileJob(id="p", attempt=1, model="tone", sha256=clip.sha256, deadline=time.time() + 10)
    async with running_worker(engine, settings):
        assert (await asker.ask(job))[-1].code in HANDED_BACK


async def test_a_worker_told_to_stop_before_its_model_is_there_ends(settings):
    class Never(ToneEngine):
        async def start(self):
            await asyncio.Event().wait()

    stop = asyncio.Event()
    worker = asyncio.create_task(run_worker(Never(), settings, stop=stop))
    await asyncio.sleep(0.05)
    stop.set()
    await asyncio.wait_for(worker, 5)


async def test_a_stopping_worker_takes_nothing_new_and_finishes_what_runs(asker, settings):
    engine = ToneEngine(engine_info(capacity=4), step=lambda request, index: asyncio.sleep(0.1))
    async with running_worker(engine, replace(settings, worker=WorkerSettings(drain_s=10))):
        await asker.first_event(speech_job("a"))
    assert isinstance((await asker.read_all(speech_job("a")))[-1], Done)
    await asker.queue.enqueue(speech_job("b"))
    assert await asker.queue.state(speech_job("b")) == "waiting"
    assert not await asker.redis.exists(keys.WORKERS)


async def test_what_does_not_finish_in_time_is_told_that_the_worker_stops(asker, settings):
    async with running_worker(ToneEngine(step=held), replace(settings, worker=WorkerSettings(drain_s=0.1))):
        await asker.first_event(speech_job("a"))
    assert (await asker.read_all(speech_job("a")))[-1].code == "worker_stopping"


async def test_text_that_an_engine_cannot_speak_is_said_to_be_so(asker, settings):
    async with running_worker(ToneEngine(), settings):
        events = await asker.ask(speech_job("a", segments=(Segment(text="", boundary="end"),)))
    assert events[-1].code == "nothing_to_speak"


async def test_a_resumed_attempt_sends_exactly_the_packets_that_are_missing(asker, settings):
    """pcm has one packet each 20 ms: 960 bytes at 24 kHz."""
    async with running_worker(ToneEngine(), settings):
        whole = audio_of(await asker.ask(speech_job("a")))
        resumed = await asker.ask(speech_job("b", attempt=2, resume=ResumePoint(packets=3)))
    assert audio_of(resumed) == whole[3 * 960 :]
    assert next(event.seq for event in resumed if isinstance(event, Audio)) == 0


async def test_long_text_is_one_reply_of_all_segments_in_order(asker, settings):
    segments = tuple(Segment(text=text, boundary="sentence") for text in ("ab", "cd", "ef"))
    engine = ToneEngine()
    async with running_worker(engine, settings):
        events = await asker.ask(speech_job("a", segments=segments))
    assert len(audio_of(events)) == 6 * 1200 * 2
    assert [request.segment.text for request in engine.requests] == ["ab", "cd", "ef"]
    assert len({request.seed for request in engine.requests}) == 3


async def test_a_pause_is_silence_of_exactly_its_length(asker, settings):
    """Before, between and behind speech; the tone engine makes 1200 samples a character and no pauses."""
    segments = (
        Segment(text="", boundary="sentence", pause_ms=250),
        Segment(text="ab", boundary="sentence", pause_ms=1500),
        Segment(text="c", boundary="sentence", pause_ms=0),
        Segment(text="d", boundary="end", pause_ms=40),
    )
    engine = ToneEngine()
    async with running_worker(engine, settings):
        events = await asker.ask(speech_job("a", segments=segments))
    samples = np.frombuffer(audio_of(events), "<i2")
    assert [request.segment.text for request in engine.requests] == ["ab", "c", "d"]
    first, second, third = [
        np.concatenate([tone(request, index) for index in range(len(request.segment.text))])
        for request in engine.requests
    ]
    silence = {pause_ms: np.zeros(24 * pause_ms, np.float32) for pause_ms in (250, 1500, 40)}
    expected = np.concatenate([silence[250], first, silence[1500], second, third, silence[40]])
    assert len(samples) == len(expected)
    assert not samples[expected == 0].any()
    assert np.abs(samples / 32767 - expected).max() < 1e-4
    assert (events[-1].usage.input_tokens, events[-1].usage.output_tokens) == (4, 20)


@pytest.mark.parametrize("speed", [0.25, 0.5, 1.5, 4.0])
async def test_a_pause_is_silence_of_exactly_its_length_at_any_speed(asker, settings, speed):
    segments = (Segment(text="abcd", boundary="sentence", pause_ms=1000), Segment(text="abcd", boundary="end"))
    async with running_worker(ToneEngine(), settings):
        samples = np.frombuffer(audio_of(await asker.ask(speech_job("a", segments=segments, speed=speed))), "<i2")
    speech, window = round(4800 / speed), 600
    assert len(samples) == speech + 24000 + speech
    assert not samples[speech:-speech].any()
    assert np.abs(samples[:speech][-window:]).max() > 1000
    assert np.abs(samples[-speech:][:window]).max() > 1000


async def test_pauses_without_speech_are_nothing_to_speak(asker, settings):
    segments = (Segment(text="", boundary="end", pause_ms=100),)
    async with running_worker(ToneEngine(), settings):
        assert (await asker.ask(speech_job("a", segments=segments)))[-1].code == "nothing_to_speak"


async def test_a_job_past_its_deadline_is_dropped(asker, settings):
    engine = ToneEngine(engine_info(capacity=1), step=held_if_marked)
    async with running_worker(engine, replace(settings, worker=WorkerSettings(drain_s=0))):
        await asker.first_event(holding_job("a"))
        await asker.queue.enqueue(speech_job("late", deadline=time.time() + 0.05))
        await asyncio.sleep(0.1)
        await asker.queue.cancel(holding_job("a"))
        assert isinstance((await asker.ask(speech_job("b")))[-1], Done)
    assert len(engine.requests) == 2
