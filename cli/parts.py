"""The gateway, the workers and the engine host as parts: how to start them and when they are ready."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from redis.asyncio import Redis
from redis.exceptions import RedisError

from cli.child import Part
from shared.broker.heartbeat import Fleet, lives_in
from shared.broker.redis_url import pool_of
from shared.settings import Settings

_STOP_MARGIN_S = 5.0
_HOST_STOP_S = 15.0


@dataclass(frozen=True, slots=True)
class Probe:
    """Asks the parts whether they are ready."""

    url: str
    _http: httpx.AsyncClient
    _redis: Redis

    async def gateway_answers(self, pid: int) -> bool:  # noqa: ARG002  # only a live gateway takes connections
        """Whether the gateway serves. While it starts, the connection waits in the listening socket."""
        return await self._answers("/health")

    async def gateway_sees_worker(self) -> bool:
        """Whether a request for speech would be answered."""
        return await self._answers("/ready")

    async def worker_beats(self, pid: int) -> bool:
        """Whether this very worker is warm; the heartbeat of a killed one outlives it by a second."""
        fleet = Fleet(self._redis)
        try:
            await fleet.refresh()
        except (RedisError, OSError):
            return False
        return any(lives_in(worker.worker, pid) for worker in fleet.workers())

    async def _answers(self, path: str) -> bool:
        try:
            return (await self._http.get(f"{self.url}{path}")).is_success
        except httpx.HTTPError:
            return False


@contextlib.asynccontextmanager
async def probe(url: str, redis_url: str) -> AsyncIterator[Probe]:
    """A probe of the gateway at `url` and of the workers in a Redis."""
    async with (
        httpx.AsyncClient(trust_env=False) as http,
        Redis.from_pool(pool_of(redis_url, max_connections=2)) as redis,
    ):
        yield Probe(url, http, redis)


def worker_part(
    settings: Settings,
    redis_url: str,
    config: Path | None,
    ask: Probe,
    *,
    name: str = "worker",
    host: Path | None = None,
) -> Part:
    """One worker; `host`: the socket of the host with its model, where the engine has one."""
    return Part(
        name=name,
        command=[*_gepard(config), "worker", *_tie(), *([] if host is None else [f"--host={host}"])],
        ready=ask.worker_beats,
        stop_s=settings.worker.drain_s + _STOP_MARGIN_S,
        env=_environment(settings, redis_url),
    )


def host_part(settings: Settings, redis_url: str, config: Path | None, path: Path, *, num_workers: int) -> Part:
    """The engine host, at a socket that `num_workers` workers share."""
    return Part(
        name="host",
        command=[*_gepard(config), "host", *_tie(), f"--socket={path}", f"--workers={num_workers}"],
        ready=lambda _: _takes_connections(path),
        stop_s=_HOST_STOP_S,
        env=_environment(settings, redis_url),
    )


async def _takes_connections(path: Path) -> bool:
    """Whether a host is warm: it listens no sooner, and the socket of a killed one refuses."""
    try:
        _, writer = await asyncio.open_unix_connection(str(path))
    except OSError:
        return False
    writer.close()
    return True


def gateway_part(
    settings: Settings, redis_url: str, config: Path | None, ask: Probe, sockets: Sequence[socket.socket]
) -> Part:
    """One gateway on sockets that this process keeps open: while it restarts, clients wait."""
    return Part(
        name="gateway",
        command=[*_gepard(config), "gateway", *_tie(), *(f"--fd={sock.fileno()}" for sock in sockets)],
        ready=ask.gateway_answers,
        stop_s=settings.server.drain_delay_s + settings.worker.drain_s + _STOP_MARGIN_S,
        pass_fds=[sock.fileno() for sock in sockets],
        env=_environment(settings, redis_url),
    )


def _gepard(config: Path | None) -> list[str]:
    """This program. -P: a folder named cli where the user stands must not be taken for it."""
    return [sys.executable, "-P", "-m", "cli", *(["--config", str(config)] if config else [])]


def _tie() -> list[str]:
    """On Linux the kernel ends the parts with this process; elsewhere they look themselves."""
    return [] if sys.platform == "linux" else [f"--parent={os.getpid()}"]


def _environment(settings: Settings, redis_url: str) -> dict[str, str]:
    """What the command line of serve may have changed."""
    return {
        "GEPARD_REDIS_URL": redis_url,
        "GEPARD_DATA_DIR": str(settings.data_path()),
        "GEPARD_SERVER_HOST": settings.server.host,
        "GEPARD_SERVER_ALLOW_REMOTE": str(settings.server.allow_remote).lower(),
    }
