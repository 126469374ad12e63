"""A key's limits hold exactly over two gateways and one Redis, and nothing of them is lost by a kill -9."""

import asyncio
import itertools
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from msgspec.structs import replace

from gateway.limits import Limits, duration
from gateway.usage import UsageLog
from shared.broker.connection import connect
from shared.settings import Settings
from tests.support.databases import make_key
from tests.support.engines import ToneEngine
from tests.support.stack import running_stack
from tests.support.waiting import eventually


def request(text: str = "0123456789", **changes) -> dict:
    return {"model": "tts-1", "input": text, "voice": "low", "response_format": "pcm", **changes}


class Held:
    """Holds every synthesis until opened; knows how many ran at once."""

    def __init__(self):
        self.open = asyncio.Event()
        self.engine = ToneEngine(step=self.wait)
        self.most = 0

    async def wait(self, request, index):
        self.most = max(self.most, self.engine.running)
        await self.open.wait()


def with_limits(settings: Settings, **changes) -> Settings:
    return replace(settings, limits=replace(settings.limits, **changes))


async def on_both(one, two, num_requests, **changes):
    """Responses to requests sent at once, in turn to one gateway and the other."""
    clients = itertools.cycle((one, two))
    calls = (next(clients).post("/v1/audio/speech", json=request(**changes)) for _ in range(num_requests))
    return await asyncio.gather(*calls)


async def test_requests_per_minute_hold_exactly(settings, engine):
    _, key = await make_key(settings, requests_per_minute=20)
    async with running_stack(settings, engine) as one, running_stack(settings) as two:
        await two.ready()
        async with one.client(key) as first, two.client(key) as second:
            responses = await on_both(first, second, 50)
    served = [response for response in responses if response.status_code == 200]
    refused = [response for response in responses if response.status_code == 429]
    assert (len(served), len(refused)) == (20, 30)
    assert len(engine.requests) == 20
    assert sorted(int(response.headers["x-ratelimit-remaining-requests"]) for response in served) == [*range(20)]
    assert {response.headers["x-ratelimit-reset-requests"] for response in served} == {"1m0s"}
    for response in refused:
        error = response.json()["error"]
        assert error["code"] == "rate_limit_exceeded"
        assert error["type"] == "requests"
        assert "20 requests a minute" in error["message"]
        assert 50 <= int(response.headers["retry-after"]) <= 60
        assert response.headers["x-ratelimit-limit-requests"] == "20"
        assert response.headers["x-ratelimit-remaining-requests"] == "0"
        assert re.fullmatch(r"1m0s|\d+s", response.headers["x-ratelimit-reset-requests"])


async def test_a_request_leaves_the_window_a_minute_after_it_came(settings, engine):
    made, key = await make_key(settings, requests_per_minute=2)
    async with running_stack(settings, engine) as stack, stack.client(key) as client:
        for _ in range(2):
            assert (await client.post("/v1/audio/speech", json=request())).status_code == 200
        window = f"gepard:limits:requests:{made.id}"
        oldest, newest = await stack.redis.zrange(window, 0, -1, withscores=True)
        # The first came 55 s before, the other 30.
        await stack.redis.zadd(window, {oldest[0]: oldest[1] - 55_000, newest[0]: newest[1] - 30_000})
        refused = await client.post("/v1/audio/speech", json=request())
        assert 4 <= int(refused.headers["retry-after"]) <= 5
        assert refused.headers["x-ratelimit-reset-requests"] in ("29s", "30s")
        await stack.redis.zincrby(window, -5_000, oldest[0])
        assert (await client.post("/v1/audio/speech", json=request())).status_code == 200
        assert (await client.post("/v1/audio/speech", json=request())).status_code == 429


async def test_characters_a_day_hold_exactly_and_running_out_is_a_quota(settings, engine):
    _, key = await make_key(settings, characters_per_day=105)
    async with running_stack(settings, engine) as one, running_stack(settings) as two:
        await two.ready()
        async with one.client(key) as first, two.client(key) as second:
            responses = await on_both(first, second, 30)
            rest = await first.post("/v1/audio/speech", json=request("abcde"))
    served = [response for response in responses if response.status_code == 200]
    assert sorted(int(response.headers["x-ratelimit-remaining-tokens"]) for response in served) == [*range(5, 105, 10)]
    refused = next(response for response in responses if response.status_code == 429)
    error = refused.json()["error"]
    assert error["code"] == error["type"] == "insufficient_quota"
    assert "10 characters; 5 of the 105" in error["message"]
    assert refused.headers["x-should-retry"] == "false"
    assert 0 < int(refused.headers["retry-after"]) <= 86400
    assert refused.headers["x-ratelimit-limit-tokens"] == "105"
    assert rest.status_code == 200
    assert rest.headers["x-ratelimit-remaining-tokens"] == "0"


async def test_characters_come_back_at_midnight(settings, engine):
    made, key = await make_key(settings, characters_per_day=10)
    async with running_stack(settings, engine) as stack, stack.client(key) as client:
        assert (await client.post("/v1/audio/speech", json=request())).status_code == 200
        seconds, _ = await stack.redis.time()
        assert await stack.redis.expiretime(f"gepard:limits:characters:{made.id}") == pytest.approx(
            (seconds // 86400 + 1) * 86400, abs=1
        )


async def test_concurrent_streams_hold_exactly(settings):
    settings, held = with_limits(settings, stream_wait_s=0), Held()
    _, key = await make_key(settings, concurrent_streams=3)
    async with running_stack(settings, held.engine) as one, running_stack(settings) as two:
        await two.ready()
        async with one.client(key) as first, two.client(key) as second:
            all_calls = asyncio.create_task(on_both(first, second, 12))
            await eventually(lambda: held.engine.running == 3)
            await asyncio.sleep(0.3)
            held.open.set()
            responses = await all_calls
            again = await on_both(first, second, 3)
    assert sorted(response.status_code for response in responses) == [200] * 3 + [429] * 9
    assert held.most == 3
    refused = next(response for response in responses if response.status_code == 429)
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert "3 requests at once" in refused.json()["error"]["message"]
    assert int(refused.headers["retry-after"]) >= 1
    assert [response.status_code for response in again] == [200] * 3


async def test_a_request_too_many_waits_a_little_for_a_stream_to_end_wherever_it_runs(settings):
    held = Held()
    _, key = await make_key(settings, concurrent_streams=1)
    async with running_stack(settings, held.engine) as one, running_stack(settings) as two:
        await two.ready()
        async with one.client(key) as first, two.client(key) as second:
            all_calls = asyncio.create_task(on_both(first, second, 6))
            await eventually(lambda: held.engine.running == 1)
            held.open.set()
            assert {response.status_code for response in await all_calls} == {200}
    assert held.most == 1


async def test_the_next_request_after_a_whole_reply_never_meets_its_own_lease(settings, engine):
    settings = with_limits(settings, stream_wait_s=0)
    _, key = await make_key(settings, concurrent_streams=1)
    async with running_stack(settings, engine) as stack, stack.client(key) as client:
        for _ in range(20):
            assert (await client.post("/v1/audio/speech", json=request("a"))).status_code == 200
            assert (await client.post("/synthesize", json={"text": "a"})).status_code == 200


async def test_those_who_wait_are_served_in_order(settings):
    held = Held()
    _, key = await make_key(settings, concurrent_streams=1)
    async with running_stack(settings, held.engine) as stack, stack.client(key) as client:
        calls = []
        for text in "abcde":
            calls.append(asyncio.create_task(client.post("/v1/audio/speech", json=request(text))))
            await asyncio.sleep(0.1)
        held.open.set()
        await asyncio.gather(*calls)
    assert [request.segment.text[0].lower() for request in held.engine.requests] == [*"abcde"]


async def test_the_line_of_one_key_is_bounded_and_holds_up_no_other_key(settings):
    held = Held()
    _, key = await make_key(settings, concurrent_streams=1)
    _, other = await make_key(settings, "other", concurrent_streams=1)
    async with running_stack(settings, held.engine) as stack, stack.client(key) as client:
        calls = [asyncio.create_task(client.post("/v1/audio/speech", json=request("a"))) for _ in range(40)]
        done, waiting = await asyncio.wait(calls, timeout=2)
        assert (len(done), len(waiting)) == (7, 33)
        assert {call.result().status_code for call in done} == {429}
        async with stack.client(other) as second:
            task = asyncio.create_task(second.post("/v1/audio/speech", json=request("b")))
            await eventually(lambda: held.engine.running == 2)
            held.open.set()
            assert (await task).status_code == 200
        await asyncio.gather(*waiting)


async def test_who_hangs_up_while_waiting_takes_nothing(settings):
    held = Held()
    made, key = await make_key(settings, concurrent_streams=1, characters_per_day=100)
    async with running_stack(settings, held.engine) as stack, stack.client(key) as client:
        first = asyncio.create_task(client.post("/v1/audio/speech", json=request()))
        await eventually(lambda: held.engine.running == 1)
        waiting = [asyncio.create_task(client.post("/v1/audio/speech", json=request())) for _ in range(5)]
        await asyncio.sleep(0.3)
        for call in waiting:
            call.cancel()
        await asyncio.wait(waiting)
        held.open.set()
        assert (await first).status_code == 200
        last = await client.post("/v1/audio/speech", json=request())
        assert last.headers["x-ratelimit-remaining-tokens"] == "80"
        await eventually(lambda: no_lease(stack.redis, made))
    assert len(held.engine.requests) == 2


async def test_a_hang_up_frees_the_stream_and_keeps_what_was_sent(settings):
    engine = ToneEngine(step=lambda request, index: asyncio.sleep(0.02))
    made, key = await make_key(settings, concurrent_streams=1, characters_per_day=1000)
    async with running_stack(settings, engine) as stack, stack.client(key) as client:
        async with client.stream("POST", "/v1/audio/speech", json=request("a" * 200)) as response:
            await anext(response.aiter_bytes())
        await eventually(lambda: no_lease(stack.redis, made))
        assert await stack.redis.get(f"gepard:limits:characters:{made.id}") == b"200"


async def test_a_failure_before_any_audio_gives_the_characters_back(settings):
    def broken(request, index):
        raise RuntimeError("broken")

    engine = ToneEngine(step=broken)
    _, key = await make_key(settings, characters_per_day=100)
    async with running_stack(settings, engine) as stack, stack.client(key) as client:
        assert (await client.post("/v1/audio/speech", json=request())).status_code == 500
        assert (await client.post("/synthesize", json={"text": "abc"})).status_code == 500
        engine.step = None
        response = await client.post("/v1/audio/speech", json=request())
        assert response.headers["x-ratelimit-remaining-tokens"] == "90"


async def test_what_is_refused_for_itself_counts_nowhere(settings, engine):
    _, key = await make_key(settings, requests_per_minute=5, characters_per_day=100, concurrent_streams=1)
    async with running_stack(settings, engine) as stack, stack.client(key) as client:
        assert (await client.post("/v1/audio/speech", json=request(voice="nobody"))).status_code == 400
        assert (await client.get("/v1/models")).status_code == 200
        assert await stack.keys() == set()
        response = await client.post("/v1/audio/speech", json=request())
        assert response.headers["x-ratelimit-remaining-requests"] == "4"
        assert response.headers["x-ratelimit-remaining-tokens"] == "90"


async def test_the_simple_route_is_limited_too(settings, engine):
    _, key = await make_key(settings, requests_per_minute=1)
    async with running_stack(settings, engine) as stack, stack.client(key) as client:
        first, second = [await client.post("/synthesize", json={"text": "abc"}) for _ in range(2)]
    assert first.headers["x-ratelimit-remaining-requests"] == "0"
    assert second.status_code == 429


async def test_a_key_without_limits_touches_nothing_in_redis_and_gets_no_headers(settings, engine):
    _, key = await make_key(settings)
    async with running_stack(settings, engine) as stack, stack.client(key) as client:
        response = await client.post("/v1/audio/speech", json=request())
        assert response.status_code == 200
        assert not [name for name in response.headers if name.startswith("x-ratelimit")]
        assert not [name for name in await stack.keys() if name.startswith("gepard:limits")]


async def test_everything_limits_leave_in_redis_expires(settings, engine):
    _, key = await make_key(settings, requests_per_minute=5, characters_per_day=100, concurrent_streams=1)
    held = Held()
    async with running_stack(settings, held.engine) as stack, stack.client(key) as client:
        call = asyncio.create_task(client.post("/v1/audio/speech", json=request()))
        await eventually(lambda: held.engine.running == 1)
        names = [name for name in await stack.keys() if name.startswith("gepard:limits")]
        assert len(names) == 3
        assert all([await stack.redis.pttl(name) > 0 for name in names])
        held.open.set()
        await call


async def test_a_running_stream_keeps_its_lease_far_beyond_its_expiry(settings):
    settings, held = with_limits(settings, stream_wait_s=0, stream_lease_s=1), Held()
    _, key = await make_key(settings, concurrent_streams=1)
    async with running_stack(settings, held.engine) as stack, stack.client(key) as client:
        call = asyncio.create_task(client.post("/v1/audio/speech", json=request()))
        await eventually(lambda: held.engine.running == 1)
        for _ in range(10):
            await asyncio.sleep(0.25)
            assert (await client.post("/v1/audio/speech", json=request())).status_code == 429
        held.open.set()
        assert (await call).status_code == 200


async def test_a_stream_that_ends_while_its_lease_is_renewed_leaves_no_lease(settings):
    """The renewal may reach Redis after the release."""
    made, _ = await make_key(settings, concurrent_streams=1)
    redis = connect(settings.redis.url, max_connections=4)
    limits = Limits(redis, UsageLog(None), replace(settings.limits, stream_lease_s=1))
    renew, renewed = limits._renew, asyncio.Event()
    permit = await limits.enter(made, 10)

    async def renew_late(**arguments):
        await permit.close(delivered=True, audio_s=0)
        await renew(**arguments)
        renewed.set()

    limits._renew = renew_late
    keeping = asyncio.create_task(limits.keep_leases())
    await renewed.wait()
    await eventually(lambda: no_lease(redis, made), within_s=0.5)
    keeping.cancel()
    await asyncio.wait([keeping])
    await redis.aclose(close_connection_pool=True)


async def test_who_hangs_up_just_as_the_wait_runs_out_takes_nothing(settings):
    """Two cancels: the second one comes while what the first one may have taken is given back."""
    made, _ = await make_key(settings, concurrent_streams=1, characters_per_day=100)
    redis = connect(settings.redis.url, max_connections=4)
    limits = Limits(redis, UsageLog(None), settings.limits)
    admit, admitted, answering = limits._admit, asyncio.Event(), asyncio.Event()

    async def admit_slowly(**arguments):
        answer = await admit(**arguments)
        admitted.set()
        await answering.wait()
        return answer

    limits._admit = admit_slowly
    entering = asyncio.create_task(limits.enter(made, 10))
    await admitted.wait()
    entering.cancel()
    await asyncio.sleep(0.01)
    entering.cancel()
    answering.set()
    await asyncio.wait([entering])
    await eventually(lambda: no_lease(redis, made), within_s=1)
    assert int(await redis.get(f"gepard:limits:characters:{made.id}")) == 0
    await redis.aclose(close_connection_pool=True)


async def no_lease(redis, key) -> bool:
    return await redis.zcard(f"gepard:limits:streams:{key.id}") == 0


def start_gateway(settings: Settings) -> subprocess.Popen[str]:
    """Another gateway, as a process of its own; read its URL from its log."""
    environment = {
        **os.environ,
        "GEPARD_REDIS_URL": settings.redis.url,
        "GEPARD_DATA_DIR": settings.data_dir,
        "GEPARD_MODEL": settings.model,
        "GEPARD_SERVER_PORT": "0",
        "GEPARD_LIMITS_STREAM_LEASE_S": str(settings.limits.stream_lease_s),
        "GEPARD_LOG_FORMAT": "json",
    }
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "cli", "gateway"], env=environment, stderr=subprocess.PIPE, text=True
    )


def url_in_log(process: subprocess.Popen[str]) -> str:
    for line in process.stderr:
        entry = json.loads(line)
        if entry["event"] == "gateway_listening":
            return entry["urls"][0]
    raise AssertionError("the gateway ended")


async def test_the_leases_of_a_killed_gateway_are_free_again_within_their_expiry(settings):
    lease_s = 2.0
    settings, held = with_limits(settings, stream_wait_s=0, stream_lease_s=lease_s), Held()
    _, key = await make_key(settings, concurrent_streams=2)
    async with running_stack(settings, held.engine) as stack, stack.client(key) as client:
        process = start_gateway(settings)
        try:
            url = await asyncio.to_thread(url_in_log, process)

            async def is_ready():
                return (await client.get(f"{url}/ready")).is_success

            await eventually(is_ready, within_s=20)
            calls = [asyncio.create_task(client.post(f"{url}/v1/audio/speech", json=request())) for _ in range(2)]
            await eventually(lambda: held.engine.running == 2)
            await asyncio.sleep(1.5 * lease_s)
            assert (await client.post("/v1/audio/speech", json=request())).status_code == 429
            os.kill(process.pid, signal.SIGKILL)
            killed_at = asyncio.get_running_loop().time()
        finally:
            process.kill()
            process.communicate()
        await asyncio.wait(calls)
        assert all(call.exception() for call in calls)
        held.open.set()

        async def served():
            return (await client.post("/v1/audio/speech", json=request())).status_code == 200

        await eventually(served, within_s=2 * lease_s)
        assert asyncio.get_running_loop().time() - killed_at <= lease_s + 0.5


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    {0: "0ms", 12: "12ms", 999: "999ms", 1000: "1s", 1001: "2s", 59_001: "1m0s", 360_000: "6m0s",
     10_921_000: "3h2m1s", 86_400_000: "24h0m0s"}.items(),
)  # fmt: skip
def test_durations_are_written_as_openai_does_and_never_too_short(milliseconds, text):
    assert duration(milliseconds) == text
