"""`gepard gateway` and `gepard worker` alone."""

import signal
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support import gepard
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


@pytest.mark.parametrize("part", ["worker", "gateway"])
def test_without_a_redis_it_says_so(part: str, tmp_path: Path):
    refused = gepard.run(part, "--redis-url", "redis://user:secret@127.0.0.1:1/0", cwd=tmp_path, GEPARD_SERVER_PORT="0")
    assert refused.returncode == 1
    assert "cannot use the Redis at redis://127.0.0.1:1/0: " in refused.stderr
    assert "secret" not in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_gateway_says_that_its_port_is_taken(redis_url: str, url: str, tmp_path: Path):
    port = urlsplit(url).port
    refused = gepard.run("gateway", "--redis-url", redis_url, "--port", port, cwd=tmp_path)
    assert refused.returncode == 1
    assert f"port {port} is taken on localhost" in refused.stderr
    assert "Traceback" not in refused.stderr
