"""`gepard gateway` and `gepard worker` alone."""

import signal
from collections.abc import Callable

import httpx

from tests.support.gepard import VOICE, Gepard, wait_until

Start = Callable[..., Gepard]


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ready", trust_env=False).is_success
    except httpx.ConnectError:
        return False


def test_gateway_and_worker_meet_in_any_redis(redis_url: str, start: Start):
    worker = start("worker", "--redis-url", redis_url)
    gateway = start("gateway", "--redis-url", redis_url, "--port", 0)
    url = gateway.await_event("gateway_listening")["urls"][0]
    wait_until(lambda: is_ready(url), within_s=90, what=f"readiness: {worker.log} {gateway.log}")
    body = {"model": "tts-1", "voice": VOICE, "input": "Good morning.", "response_format": "wav"}
    assert httpx.post(f"{url}/v1/audio/speech", json=body, timeout=60, trust_env=False).content[:4] == b"RIFF"
    assert (worker.end(signal.SIGTERM), gateway.end(signal.SIGINT)) == (0, 0)
    assert "worker_stopped" in worker.log
    assert "gateway_stopped" in gateway.log
    assert "Traceback" not in worker.log + gateway.log


def test_without_a_redis_they_say_so(start: Start):
    redis = ("--redis-url", "redis://user:secret@127.0.0.1:1/0")
    for part in [start("worker", *redis), start("gateway", *redis, "--port", 0)]:
        assert part.process.wait(60) == 1
        assert "Error: cannot use the Redis at redis://127.0.0.1:1/0: " in part.log
        assert "secret" not in part.log
        assert "Traceback" not in part.log
