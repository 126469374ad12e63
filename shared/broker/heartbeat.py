"""Liveness: workers beat into keys that expire; gateways keep a picture of who is alive.

The same picture serves the model list, readiness, admission and the watch over running replies.
"""

import asyncio
import os
import re
import socket
import time
import uuid

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from shared.broker import keys
from shared.contracts import EngineInfo, Heartbeat, WorkerId
from shared.telemetry import get_logger

INTERVAL_S = 0.4
TTL_MS = 1200
"""A lost worker is known after its life, one refresh and one silent read of the gateway: under 2 s."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Heartbeat)
log = get_logger()


def new_worker_id() -> WorkerId:
    """Unique, and readable in logs: host, process, and a random part for a process that starts twice."""
    return WorkerId(f"{_process(os.getpid())}{uuid.uuid4().hex[:6]}")


def lives_in(worker: WorkerId, pid: int) -> bool:
    """Whether a worker is that process of this machine."""
    return worker.startswith(_process(pid))


def lives_here(worker: WorkerId) -> bool:
    """Whether a worker is a process of this machine, or of this container."""
    return re.fullmatch(rf"{re.escape(socket.gethostname())}-\d+-[0-9a-f]{{6}}", worker) is not None


def _process(pid: int) -> str:
    return f"{socket.gethostname()}-{pid}-"


async def beat(redis: Redis, heartbeat: Heartbeat) -> None:
    """Say that a worker is alive."""
    async with redis.pipeline(transaction=False) as pipe:
        pipe.set(keys.heartbeat(heartbeat.worker), _encoder.encode(heartbeat), px=TTL_MS)
        pipe.zadd(keys.WORKERS, {heartbeat.worker: time.time()})
        await pipe.execute()


async def clear(redis: Redis, worker: WorkerId) -> None:
    """Say that a worker has ended."""
    async with redis.pipeline(transaction=False) as pipe:
        pipe.delete(keys.heartbeat(worker))
        pipe.zrem(keys.WORKERS, worker)
        await pipe.execute()


class Fleet:
    """A gateway's picture of the live workers, at most `INTERVAL_S` old."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._workers: dict[WorkerId, Heartbeat] = {}
        self._unreadable: set[WorkerId] = set()

    async def watch(self) -> None:
        """Refresh until cancelled. Without Redis no worker counts as alive."""
        while True:
            try:
                await self.refresh()
            except (RedisError, OSError) as error:
                log.warning("fleet_refresh_failed", error=type(error).__name__)
                self._workers = {}
            await asyncio.sleep(INTERVAL_S)

    async def refresh(self) -> None:
        """Look once."""
        ids = [WorkerId(raw.decode()) for raw in await self._redis.zrange(keys.WORKERS, 0, -1)]
        if not ids:
            self._workers, self._unreadable = {}, set()
            return
        values = await self._redis.mget([keys.heartbeat(worker) for worker in ids])
        found = dict(zip(ids, values, strict=True))
        gone = [worker for worker, value in found.items() if value is None]
        if gone:
            await self._redis.zrem(keys.WORKERS, *gone)
        self._read({worker: value for worker, value in found.items() if value is not None})

    def _read(self, found: dict[WorkerId, bytes]) -> None:
        """Take in heartbeats; a worker of a release that speaks otherwise is no use here, but hides no other."""
        workers: dict[WorkerId, Heartbeat] = {}
        for worker, value in found.items():
            try:
                workers[worker] = _decoder.decode(value)
            except msgspec.MsgspecError as error:
                if worker not in self._unreadable:
                    log.warning("heartbeat_unreadable", worker=worker, error=type(error).__name__)
        self._workers, self._unreadable = workers, found.keys() - workers.keys()

    def is_alive(self, worker: WorkerId) -> bool:
        """Whether the worker beat within the last refresh."""
        return worker in self._workers

    def can_serve(self, model: str, edition: str = "") -> bool:
        """Whether a worker of the model takes jobs, be it full now; with `edition`, one of that."""
        return any(
            beat.accepting and beat.info.model == model and edition in ("", beat.info.edition)
            for beat in self._workers.values()
        )

    def models(self) -> dict[str, EngineInfo]:
        """The models that live workers serve."""
        return {beat.info.model: beat.info for beat in self._workers.values()}

    def workers(self) -> tuple[Heartbeat, ...]:
        """Every live worker."""
        return tuple(self._workers.values())
