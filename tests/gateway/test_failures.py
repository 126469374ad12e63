"""Failures after the request was accepted: before the first byte an error, after it a cut, or another worker."""

import asyncio
import json

import httpx
import pytest
from msgspec.structs import replace

from shared.errors import EngineBroken, EngineError, EngineLost
from shared.settings import LimitsSettings
from tests.support.engines import ToneEngine, engine_info
from tests.support.stack import running_stack
from tests.support.waiting import eventually

TEXT = "one two three four five six seven eight nine"
REQUEST = {"model": "tts-1", "input": TEXT, "voice": "low", "response_format": "pcm", "seed": 5}


def fails_at(step_index):
    def step(request, index):
        if index == step_index:
            raise EngineError("the secret inside")
        return asyncio.sleep(0.01)

    return step


async def test_before_the_first_byte_is_an_error_answer(settings):
    async with running_stack(settings, ToneEngine(step=fails_at(0))) as stack, stack.client() as client:
        response = await client.post("/v1/audio/speech", json=REQUEST)
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "engine_error"
    assert "secret" not in response.text


async def test_after_the_first_byte_cuts_the_connection(settings):
    async with (
        running_stack(settings, ToneEngine(step=fails_at(20))) as stack,
        stack.client() as client,
        client.stream("POST", "/v1/audio/speech", json=REQUEST) as response,
    ):
        assert response.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):
            await response.aread()


async def test_after_the_first_byte_of_sse_is_an_error_event_without_done(settings):
    async with running_stack(settings, ToneEngine(step=fails_at(20))) as stack, stack.client() as client:
        response = await client.post("/v1/audio/speech", json={**REQUEST, "stream_format": "sse"})
    events = [json.loads(line.removeprefix("data: ")) for line in response.text.split("\n\n") if line]
    assert events[-1]["error"]["code"] == "engine_error"
    assert not any(event.get("type") == "speech.audio.done" for event in events)


async def read_to_the_end(body) -> None:
    async for _ in body:
        pass


async def whole_reply(settings, request) -> bytes:
    async with running_stack(settings, ToneEngine()) as stack, stack.client() as client:
        return (await client.post("/v1/audio/speech", json=request)).content


@pytest.mark.parametrize(
    ("how", "changes"),
    [
        ("kill", {}),
        ("stop", {}),
        ("kill", {"response_format": "webm", "bit_rate": 24000}),
    ],
    ids=["killed", "stopped", "webm at a bit rate"],
)
async def test_a_reply_whose_worker_goes_is_finished_by_another_and_stays_one_stream(settings, how, changes):
    request = {**REQUEST, **changes}
    expected = await whole_reply(settings, request)
    settings = replace(settings, worker=replace(settings.worker, drain_s=0))
    first, second = [ToneEngine(step=lambda request, index: asyncio.sleep(0.02)) for _ in range(2)]
    async with (
        running_stack(settings, first) as stack,
        stack.client() as client,
        client.stream("POST", "/v1/audio/speech", json=request) as response,
    ):
        body = response.aiter_raw()
        received = await anext(body)
        await stack.start_worker(second)
        await getattr(stack.workers[0], how)()
        async for data in body:
            received += data
    assert received == expected
    assert len(first.requests) == len(second.requests) == 1


async def test_an_engine_that_cannot_resume_does_not_start_again_after_the_first_byte(settings):
    settings = replace(settings, worker=replace(settings.worker, drain_s=0))
    info = engine_info(can_resume=False)
    first, second = [ToneEngine(info, step=lambda request, index: asyncio.sleep(0.02)) for _ in range(2)]
    async with (
        running_stack(settings, first) as stack,
        stack.client() as client,
        client.stream("POST", "/v1/audio/speech", json=REQUEST) as response,
    ):
        body = response.aiter_raw()
        await anext(body)
        await stack.start_worker(second)
        await stack.workers[0].kill()
        with pytest.raises(httpx.RemoteProtocolError):
            await read_to_the_end(body)
    assert second.requests == []


async def lose_the_worker(stack, client, second, *, request=REQUEST):
    """Start a reply, start `second` (if any) and kill the first worker; what the client gets in all."""
    received = b""
    async with client.stream("POST", "/v1/audio/speech", json=request) as response:
        body = response.aiter_raw()
        received += await anext(body)
        if second is not None:
            await stack.start_worker(second)
        await stack.workers[0].kill()
        async for data in body:
            received += data
    return received


def slow(request, index):
    return asyncio.sleep(0.02)


async def test_a_worker_of_another_edition_does_not_go_on_with_a_reply(settings):
    """It would make other noise, and other lengths."""
    limits = LimitsSettings(resume_wait_s=0.5)
    settings = replace(settings, limits=limits, worker=replace(settings.worker, drain_s=0))
    other = ToneEngine(replace(engine_info(), revision="newer"), step=slow)
    async with running_stack(settings, ToneEngine(step=slow)) as stack, stack.client() as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await asyncio.wait_for(lose_the_worker(stack, client, other), 10)
    assert other.requests == []


async def test_a_reply_waits_for_a_worker_of_its_own_edition(settings):
    """In a rolling update the job may come to a newer worker first, which gives it back."""
    expected = await whole_reply(settings, REQUEST)
    settings = replace(settings, worker=replace(settings.worker, drain_s=0))
    other, same = ToneEngine(replace(engine_info(), revision="newer"), step=slow), ToneEngine(step=slow)
    async with running_stack(settings, ToneEngine(step=slow)) as stack, stack.client() as client:
        going = asyncio.create_task(lose_the_worker(stack, client, other))
        await asyncio.wait([stack.workers[0].task], timeout=5)
        await asyncio.sleep(2.5)
        await stack.start_worker(same)
        assert await asyncio.wait_for(going, 10) == expected
    assert other.requests == []


async def test_a_reply_without_any_worker_left_ends_after_its_wait(settings):
    limits = LimitsSettings(resume_wait_s=0.5)
    settings = replace(settings, limits=limits, worker=replace(settings.worker, drain_s=0))
    request = {**REQUEST, "stream_format": "sse"}
    async with running_stack(settings, ToneEngine(step=slow)) as stack, stack.client() as client:
        body = await asyncio.wait_for(lose_the_worker(stack, client, None, request=request), 5)
    assert b'"worker_lost"' in body
    assert b"speech.audio.done" not in body


async def test_a_reply_without_any_worker_left_goes_on_when_one_comes_back(settings):
    expected = await whole_reply(settings, REQUEST)
    settings = replace(settings, worker=replace(settings.worker, drain_s=0))
    async with running_stack(settings, ToneEngine(step=slow)) as stack, stack.client() as client:
        going = asyncio.create_task(lose_the_worker(stack, client, None))
        await asyncio.wait([stack.workers[0].task], timeout=5)
        await asyncio.sleep(2.5)
        await stack.start_worker(ToneEngine(step=slow))
        assert await asyncio.wait_for(going, 10) == expected


@pytest.mark.parametrize("error", [EngineLost("gone"), EngineBroken("gone")], ids=["lost", "broken"])
async def test_a_reply_whose_engine_goes_is_finished_by_another_worker(settings, error):
    """The process with the model died, or must end: it is no fault of the request."""
    expected = await whole_reply(settings, REQUEST)
    going = asyncio.Event()

    def dies(request, index):
        if going.is_set():
            raise error
        return asyncio.sleep(0.02)

    second = ToneEngine(step=slow)
    async with running_stack(settings, ToneEngine(step=dies)) as stack, stack.client() as client:
        async with client.stream("POST", "/v1/audio/speech", json=REQUEST) as response:
            body = response.aiter_raw()
            received = await anext(body)
            await stack.start_worker(second)
            going.set()
            while not second.requests and (data := await anext(body, b"")):
                received += data
            async for data in body:
                received += data
        assert received == expected
        await stack.workers[0].stop()
        assert type(stack.workers[0].task.exception()) is (
            EngineBroken if isinstance(error, EngineBroken) else type(None)
        )


async def test_an_engine_that_comes_to_a_halt_loses_its_reply_to_another_worker_and_ends(settings):
    """Its process still beats, which is all that a gateway sees."""
    expected = await whole_reply(settings, REQUEST)
    limits = LimitsSettings(engine_stall_timeout_s=0.5)
    settings = replace(settings, limits=limits)
    halted = asyncio.Event()
    first = ToneEngine(step=lambda request, index: asyncio.sleep(3600 if halted.is_set() else 0.02))
    second = ToneEngine(step=slow)
    async with running_stack(settings, first) as stack, stack.client() as client:
        async with client.stream("POST", "/v1/audio/speech", json=REQUEST) as response:
            body = response.aiter_raw()
            received = await anext(body)
            await stack.start_worker(second)
            halted.set()
            async for data in body:
                received += data
        assert received == expected
        assert first.running == 0
        with pytest.raises(EngineBroken):
            await asyncio.wait_for(stack.workers[0].task, 5)


async def test_a_reply_that_stands_still_alone_leaves_its_worker_alone(settings):
    """Others have their sound: the engine lives."""
    limits = LimitsSettings(engine_stall_timeout_s=2, max_attempts=1)
    settings = replace(settings, limits=limits)

    def step(request, index):
        return asyncio.sleep(3600 if request.segment.text.startswith("halt") else 0.05)

    async with running_stack(settings, ToneEngine(step=step)) as stack, stack.client() as client:
        other = asyncio.create_task(client.post("/v1/audio/speech", json={**REQUEST, "input": "word " * 20}))
        response = await client.post("/v1/audio/speech", json={**REQUEST, "input": "halt here"})
        assert (response.status_code, response.json()["error"]["code"]) == (503, "worker_lost")
        assert (await other).status_code == 200
        assert not stack.workers[0].task.done()


async def test_a_reply_that_changes_its_worker_is_counted_once(settings):
    settings = replace(settings, worker=replace(settings.worker, drain_s=0))
    async with running_stack(settings, ToneEngine(step=slow)) as stack, stack.client() as client:
        await lose_the_worker(stack, client, ToneEngine(step=slow))
        text = (await client.get("/metrics")).text
    assert 'gepard_resumed_replies_total{model="tone"} 1.0' in text
    assert 'gepard_speech_requests_total{format="pcm",model="tone",outcome="done"} 1.0' in text


async def test_a_reply_that_has_lost_its_only_worker_ends_in_time(settings):
    limits = LimitsSettings(max_attempts=1)
    settings = replace(settings, limits=limits, worker=replace(settings.worker, drain_s=0))
    engine = ToneEngine(step=lambda request, index: asyncio.sleep(3600))
    async with running_stack(settings, engine) as stack, stack.client() as client:
        asking = asyncio.create_task(client.post("/v1/audio/speech", json=REQUEST))
        await eventually(lambda: engine.running)
        await stack.workers[0].kill()
        response = await asyncio.wait_for(asking, 5)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "worker_lost")
    assert response.headers["retry-after"]


@pytest.mark.parametrize("steps_before", [0, 5], ids=["before its first byte", "after it"])
async def test_a_reply_that_no_other_worker_takes_over_ends_in_time(settings, steps_before):
    """There is another one, which is full: it may be so for hours."""
    settings = replace(
        settings,
        limits=LimitsSettings(first_event_timeout_s=0.5),
        worker=replace(settings.worker, drain_s=0),
    )
    lost = ToneEngine(step=lambda request, index: asyncio.sleep(0 if index < steps_before else 3600))
    full = ToneEngine(engine_info(capacity=1), step=lambda request, index: asyncio.sleep(3600))
    async with running_stack(settings, full) as stack, stack.client() as client:
        blocking = asyncio.create_task(client.post("/v1/audio/speech", json=REQUEST))
        await eventually(lambda: full.running)
        await stack.start_worker(lost)
        asking = asyncio.create_task(client.post("/v1/audio/speech", json={**REQUEST, "stream_format": "sse"}))
        await eventually(lambda: lost.steps >= steps_before and lost.running)
        await asyncio.sleep(0.2)
        await stack.workers[1].kill()
        response = await asyncio.wait_for(asking, 6)
        blocking.cancel()
    assert response.status_code == (200 if steps_before else 503)
    assert "server_overloaded" in response.text
    assert "speech.audio.done" not in response.text


async def test_a_job_that_was_claimed_and_lost_in_the_hand_over_is_given_to_another_worker(settings):
    """The worker died between taking the job and saying so."""
    engine = ToneEngine()
    async with running_stack(settings) as stack, stack.client() as client:
        # A worker seen by the gateway, so that the request is admitted, that never takes a job.
        busy = ToneEngine(engine_info(capacity=1), step=lambda request, index: asyncio.sleep(3600))
        ghost = await stack.start_worker(busy)
        await stack.ready()
        blocking = asyncio.create_task(client.post("/v1/audio/speech", json=REQUEST))
        await eventually(lambda: busy.running)
        asking = asyncio.create_task(client.post("/v1/audio/speech", json=REQUEST))
        (name,) = await eventually(lambda: stack.redis.zrange("gepard:queue:tone", 0, -1))
        await stack.redis.zrem("gepard:queue:tone", name)
        await stack.start_worker(engine)
        response = await asyncio.wait_for(asking, 10)
        blocking.cancel()
        await ghost.kill()
    assert response.status_code == 200
    assert len(engine.requests) == 1


async def _queue_length(stack, wanted):
    return await stack.redis.zcard("gepard:queue:tone") == wanted


async def test_a_request_that_no_worker_takes_in_time_is_refused_with_a_time_to_retry(settings):
    settings = replace(settings, limits=LimitsSettings(first_event_timeout_s=0.5))
    engine = ToneEngine(engine_info(capacity=1), step=lambda request, index: asyncio.sleep(3600))
    async with running_stack(settings, engine) as stack, stack.client() as client:
        blocking = asyncio.create_task(client.post("/v1/audio/speech", json=REQUEST))
        await eventually(lambda: engine.running)
        response = await client.post("/v1/audio/speech", json=REQUEST)
        assert (response.status_code, response.json()["error"]["code"]) == (503, "server_overloaded")
        assert response.headers["retry-after"]
        blocking.cancel()


async def test_a_full_line_refuses_at_once(settings):
    settings = replace(settings, limits=LimitsSettings(max_pending=2))
    engine = ToneEngine(engine_info(capacity=1), step=lambda request, index: asyncio.sleep(3600))
    async with running_stack(settings, engine) as stack, stack.client() as client:
        waiting = [asyncio.create_task(client.post("/v1/audio/speech", json=REQUEST)) for _ in range(2)]
        await eventually(lambda: engine.running)
        await eventually(lambda: _queue_length(stack, 1))
        response = await client.post("/v1/audio/speech", json=REQUEST)
        assert (response.status_code, response.json()["error"]["code"]) == (503, "server_overloaded")
        for task in waiting:
            task.cancel()


async def test_without_a_worker_the_answer_says_so(settings):
    async with running_stack(settings) as stack, stack.client() as client:
        response = await client.post("/v1/audio/speech", json=REQUEST)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "model_unavailable")


async def test_more_unread_audio_than_the_bound_cuts_the_connection(settings):
    """A client that reads nothing while the engine runs on."""
    settings = replace(settings, limits=LimitsSettings(stream_max_bytes=2_000_000))
    engine = ToneEngine(chunk_chars=1)
    async with running_stack(settings, engine) as stack, stack.client() as client:
        request = {**REQUEST, "input": "word " * 200, "sample_rate": 48000, "speed": 0.25}
        async with client.stream("POST", "/v1/audio/speech", json=request) as response:
            body = response.aiter_raw()
            await anext(body)
            await eventually(lambda: engine.requests and not engine.running, within_s=60)
            with pytest.raises(httpx.RemoteProtocolError):
                await read_to_the_end(body)


async def test_a_client_that_pauses_gets_every_byte_and_holds_nobody_up(settings):
    """O13: https://github.com/XCQ0607/lxserver/pull/287"""
    settings = replace(settings, limits=LimitsSettings(reply_ttl_s=5))
    request = {**REQUEST, "input": "word " * 200, "response_format": "wav"}
    async with running_stack(settings, ToneEngine(chunk_chars=10)) as stack, stack.client() as client:
        expected = (await client.post("/v1/audio/speech", json=request)).content
        async with client.stream("POST", "/v1/audio/speech", json=request) as response:
            body = response.aiter_raw()
            received = await anext(body)
            await asyncio.sleep(8)  # longer than an unread reply lives without its gateway
            other = await client.post("/v1/audio/speech", json=REQUEST)
            assert other.status_code == 200
            async for data in body:
                received += data
    assert received == expected


async def test_a_client_that_takes_nothing_for_too_long_is_cut(settings):
    settings = replace(settings, limits=LimitsSettings(client_stall_timeout_s=0.5))
    request = {**REQUEST, "input": "word " * 200, "response_format": "wav", "sample_rate": 48000}
    async with (
        running_stack(settings, ToneEngine(chunk_chars=1)) as stack,
        stack.client() as client,
        client.stream("POST", "/v1/audio/speech", json=request) as response,
    ):
        body = response.aiter_raw()
        await anext(body)
        await eventually(lambda: _no_reply_left(stack), within_s=30)
        with pytest.raises(httpx.RemoteProtocolError):
            await read_to_the_end(body)


async def _no_reply_left(stack):
    return not any(name.startswith("gepard:reply:") for name in await stack.keys())
