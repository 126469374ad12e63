"""The engine host and its workers as processes: started together, killed, back again."""

import asyncio
import contextlib
import os
import signal
import stat
from pathlib import Path

import httpx
import pytest

pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")

from tests.support.gepard import Gepard, is_running, wait_until
from tests.support.tiny_gepard import CHECKPOINT, CODEC, write_starters

TEXT = " ".join(f"Sentence number {n} is here to be spoken aloud, and it is not the shortest." for n in range(5))
BODY = {
    "model": "gepard",
    "voice": "alloy",
    "input": TEXT,
    "response_format": "pcm",
    "seed": 1,
    "temperature": 1.0,
    "stop_threshold": 1.0,
    "max_frames": 50,
}


@pytest.fixture
def options(tmp_path):
    """Variables for the tiny model: two workers on one host."""
    return {
        "GEPARD_DATA_DIR": str(tmp_path / "data"),
        "GEPARD_MODEL": "gepard",
        "GEPARD_WORKER_ENGINE": "gepard",
        "GEPARD_WORKER_CAPACITY": "4",
        "GEPARD_WORKER_THREADS": "1",
        "GEPARD_GEPARD_CHECKPOINT": str(CHECKPOINT),
        "GEPARD_GEPARD_CODEC": str(CODEC),
        "GEPARD_GEPARD_STARTER_CLIPS": str(write_starters(tmp_path / "clips")),
        "GEPARD_GEPARD_DEVICE": "cpu",
        "GEPARD_GEPARD_WORKERS": "2",
    }


def whole(url: str, body: dict[str, object] = BODY) -> bytes:
    """The sound of an undisturbed reply."""
    response = httpx.post(f"{url}/v1/audio/speech", json=body, timeout=120, trust_env=False)
    assert response.status_code == 200, response.text
    return response.content


async def heard(url: str, *, count: int, first: asyncio.Event) -> list[bytes]:
    """So many replies at once, read to their ends; `first` is set when each of them has begun."""
    begun = 0

    async def listen(client: httpx.AsyncClient) -> bytes:
        nonlocal begun
        data = b""
        async with client.stream("POST", f"{url}/v1/audio/speech", json=BODY) as response:
            assert response.status_code == 200
            async for chunk in response.aiter_raw():
                begun += not data
                data += chunk
                if begun == count:
                    first.set()
        return data

    async with httpx.AsyncClient(timeout=120, trust_env=False) as client:
        return await asyncio.gather(*(listen(client) for _ in range(count)))


async def disturbed(url: str, kill, *, count: int) -> list[bytes]:
    """Replies at once, with `kill` called in their midst."""
    first = asyncio.Event()
    hearing = asyncio.create_task(heard(url, count=count, first=first))
    beginning = asyncio.create_task(first.wait())
    await asyncio.wait([hearing, beginning], return_when=asyncio.FIRST_COMPLETED)
    assert not hearing.done(), "they ended before they could be disturbed"
    kill()
    return await hearing


def difference(one: bytes, other: bytes) -> int:
    """The largest difference of two sounds of equal length, in steps of 16 bits."""
    import numpy as np  # noqa: PLC0415 - after torch is known to be there

    assert len(one) == len(other)
    return int(np.abs(np.frombuffer(one, "<i2").astype(int) - np.frombuffer(other, "<i2")).max())


def test_streams_go_on_when_the_host_is_killed_and_back(start, options):
    serve = start("serve", "--port", 0, **options)
    url = serve.await_banner()
    assert set(serve.parts()) == {"valkey", "host", "worker-1", "worker-2", "gateway"}
    arguments = Path(f"/proc/{serve.parts()['host']}/cmdline").read_text().split("\0")
    (path,) = [Path(word.partition("=")[2]) for word in arguments if word.startswith("--socket=")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    undisturbed = whole(url)
    killed = serve.parts()["host"]
    replies = asyncio.run(disturbed(url, lambda: os.kill(killed, signal.SIGKILL), count=2))
    # Sound differs by rounding, since a resumed stream is cut otherwise for the codec.
    assert max(difference(reply, undisturbed) for reply in replies) <= 4
    assert serve.await_event("part_died", part="host")
    assert {event["reason"] for event in serve.events() if event["event"] == "attempt_lost"} == {"engine_lost"}
    # The workers lived on.
    assert len([event for event in serve.events() if event["event"] == "part_died"]) == 1
    wait_until(lambda: httpx.get(f"{url}/ready", trust_env=False).is_success, within_s=30, what="readiness")
    assert difference(whole(url), undisturbed) <= 4
    assert serve.end(signal.SIGTERM) == 0
    assert not [pid for pid in serve.all_pids() if is_running(pid)]
    assert "Traceback" not in serve.log


def test_streams_of_a_host_that_dies_go_on_at_another(start, options, redis_url):
    """One worker command a GPU, both on one queue."""
    options = {**options, "GEPARD_GEPARD_WORKERS": "1"}
    workers = [start("worker", "--redis-url", redis_url, **options) for _ in range(2)]
    gateway = start("gateway", "--redis-url", redis_url, "--port", 0, GEPARD_MODEL="gepard",
                    GEPARD_DATA_DIR=options["GEPARD_DATA_DIR"])  # fmt: skip
    url = gateway.await_event("gateway_listening")["urls"][0]
    for worker in workers:
        worker.await_event("worker_ready")
    wait_until(lambda: ready_workers(url) == 2, within_s=30, what="both workers in the gateway's picture")
    undisturbed = whole(url)

    def kill() -> None:
        """The host that has streams, or either."""
        os.kill(workers[0].parts()["host"], signal.SIGKILL)

    replies = asyncio.run(disturbed(url, kill, count=3))
    assert max(difference(reply, undisturbed) for reply in replies) <= 4
    assert workers[0].await_event("part_died", part="host")
    assert any(event["event"] == "attempt_lost" for event in gateway.events())
    assert [worker.end(signal.SIGTERM) for worker in workers] == [0, 0]
    assert not any(is_running(pid) for worker in workers for pid in worker.all_pids())


def ready_workers(url: str) -> int:
    with contextlib.suppress(httpx.ConnectError):
        text = httpx.get(f"{url}/metrics", trust_env=False).text
        return sum(line.startswith("gepard_worker_accepting{") and line.endswith(" 1.0") for line in text.splitlines())
    return 0


def test_a_worker_whose_supervisor_is_killed_leaves_nothing(start, options, redis_url):
    worker: Gepard = start("worker", "--redis-url", redis_url, **options)
    worker.await_event("worker_ready")
    pids = worker.all_pids()
    assert len(pids) == 3
    worker.end(signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, pids)), within_s=10, what="the end of all parts")
