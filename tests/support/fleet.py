"""A gateway and workers as processes of their own, to be killed and frozen, and what their clients hear."""

import asyncio
import base64
import contextlib
import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from redis import Redis

from tests.support.gepard import Gepard, wait_until

_WAIT_S = 60.0


@dataclass
class Fleet:
    """The running parts, over one Redis. `env`: settings of every part."""

    folder: Path
    redis_url: str
    env: dict[str, str]
    gateways: list[Gepard] = field(default_factory=list)
    workers: list[Gepard] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)

    def start_gateway(self, **env: str) -> str:
        """Start a gateway; returns its URL."""
        gateway = Gepard(
            self.folder / f"gateway-{len(self.gateways)}",
            *("gateway", "--redis-url", self.redis_url, "--port", 0),
            **{**self.env, "GEPARD_DATA_DIR": str(self.folder / "data"), **env},
        )
        self.gateways.append(gateway)
        url: str = gateway.await_event("gateway_listening")["urls"][0]
        self.urls.append(url)
        return url

    def start_worker(self, **env: str) -> Gepard:
        """Start a worker; `await_ready` waits for it."""
        folder = self.folder / f"worker-{len(self.workers)}"
        worker = Gepard(folder, "worker", "--redis-url", self.redis_url, **{**self.env, **env})
        self.workers.append(worker)
        return worker

    def await_alive(self, worker: Gepard) -> None:
        """Until it beats."""
        name = worker.await_event("worker_ready")["worker"]
        with Redis.from_url(self.redis_url) as redis:
            wait_until(lambda: redis.exists(f"gepard:heartbeat:{name}"), within_s=_WAIT_S, what=f"heartbeat of {name}")

    def signal(self, worker: Gepard, signum: signal.Signals) -> None:
        """Send it to the worker, and to what it has started, as a machine that goes would."""
        for pid in _tree(worker.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    def freeze(self, worker: Gepard) -> None:
        """Stop it in its tracks, and wait until nobody counts on it any more."""
        self.signal(worker, signal.SIGSTOP)
        name = worker.await_event("worker_ready")["worker"]
        with Redis.from_url(self.redis_url) as redis:
            wait_until(lambda: not redis.exists(f"gepard:heartbeat:{name}"), within_s=_WAIT_S, what=f"end of {name}")

    def thaw(self, worker: Gepard) -> None:
        """Let it go on."""
        self.signal(worker, signal.SIGCONT)

    def metric(self, name: str) -> float:
        """The sum of a metric of the gateways, over all labels."""
        lines = (line for url in self.urls for line in httpx.get(f"{url}/metrics", trust_env=False).text.splitlines())
        return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(rf"{name}(\{{| )", line))

    def keys(self) -> set[str]:
        """What is left in Redis, but for the workers' own and what speakers were made of."""
        with Redis.from_url(self.redis_url) as redis:
            names = {key.decode() for key in redis.scan_iter()}
        lasting = ("gepard:heartbeat:", "gepard:workers", "gepard:profile", "gepard:clip", "gepard:cancelled:")
        return {name for name in names if not name.startswith(lasting)}

    def clean(self) -> None:
        """End everything."""
        for worker in self.workers:
            self.thaw(worker)
        for part in (*self.gateways, *self.workers):
            part.clean()


def _tree(pid: int) -> Iterator[int]:
    """A process and all that came of it."""
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


@contextlib.contextmanager
def running_fleet(folder: Path, redis_url: str, **env: str) -> Iterator[Fleet]:
    """Nothing runs yet; everything that was started is ended."""
    with Redis.from_url(redis_url) as redis:
        redis.flushall()
    fleet = Fleet(folder, redis_url, env)
    try:
        yield fleet
    finally:
        fleet.clean()


class Listener:
    """One request for speech and what has come of it so far, as a client hears it."""

    def __init__(self, url: str, request: dict[str, Any]) -> None:
        self.request = request
        self.audio = bytearray()
        self.usage: dict[str, int] | None = None
        self.error = ""
        """What an error event or answer says, or `cut` when the connection broke off."""
        self.heard = asyncio.Event()
        self._url = url

    async def listen(self) -> None:
        """To the end of the reply, however it ends."""
        sse = self.request.get("stream_format") == "sse"
        try:
            async with (
                httpx.AsyncClient(timeout=120, trust_env=False) as client,
                client.stream("POST", f"{self._url}/v1/audio/speech", json=self.request) as response,
            ):
                if not response.is_success:
                    self.error = json.loads(await response.aread())["error"]["code"]
                    return
                if sse:
                    async for line in response.aiter_lines():
                        self._event(line)
                else:
                    async for data in response.aiter_raw():
                        self._took(data)
        except httpx.RemoteProtocolError:
            self.error = "cut"

    def _event(self, line: str) -> None:
        if not line.startswith("data: "):
            return
        event = json.loads(line.removeprefix("data: "))
        if "error" in event:
            self.error = event["error"]["code"]
        elif event["type"] == "speech.audio.delta":
            self._took(base64.b64decode(event["audio"]))
        else:
            self.usage = event["usage"]

    def _took(self, data: bytes) -> None:
        self.audio += data
        self.heard.set()
