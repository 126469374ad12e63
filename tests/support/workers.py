"""A worker in this process, and a client of the broker that plays the gateway."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from shared.broker.connection import connect
from shared.broker.events import ReplyReader
from shared.broker.queue import JobQueue
from shared.contracts import Audio, Done, Event, Failed, SpeechJob
from shared.settings import Settings
from workers.engines.base import Engine
from workers.worker import run_worker


class Asker:
    """Sends jobs and reads replies."""

    def __init__(self, url: str, *, max_connections: int = 64) -> None:
        self.redis = connect(url, max_connections=max_connections)
        self.queue = JobQueue(self.redis)

    def reader(self, job: SpeechJob) -> ReplyReader:
        return ReplyReader(self.redis, job, ttl_s=60)

    async def ask(self, job: SpeechJob, *, within_s: float = 10.0) -> list[Event]:
        """All events of a job, to its last one."""
        await self.queue.enqueue(job)
        return await self.read_all(job, within_s=within_s)

    async def read_all(self, job: SpeechJob, *, within_s: float = 10.0) -> list[Event]:
        reader, events = self.reader(job), []
        deadline = time.monotonic() + within_s
        while not (events and isinstance(events[-1], Done | Failed)):
            assert time.monotonic() < deadline, f"no end of {job.id} within {within_s} s; events so far: {len(events)}"
            events += await reader.read(200)
        return events

    async def first_event(self, job: SpeechJob, *, within_s: float = 10.0) -> list[Event]:
        """Enqueue and wait for the first events (`started`)."""
        await self.queue.enqueue(job)
        reader, deadline = self.reader(job), time.monotonic() + within_s
        while not (events := await reader.read(200)):
            assert time.monotonic() < deadline, f"{job.id} was not started within {within_s} s"
        return events


def audio_of(events: list[Event]) -> bytes:
    """The bytes a client would get."""
    return b"".join(event.data for event in events if isinstance(event, Audio))


@contextlib.asynccontextmanager
async def running_worker(engine: Engine, settings: Settings) -> AsyncIterator[asyncio.Task[None]]:
    """A worker that has registered itself; stopped as by SIGTERM at the end."""
    stop = asyncio.Event()
    redis = connect(settings.redis.url, max_connections=4)
    before = await redis.zcard("gepard:workers")
    task = asyncio.create_task(run_worker(engine, settings, stop=stop))
    while await redis.zcard("gepard:workers") == before:
        if task.done():
            task.result()
        await asyncio.sleep(0.01)
    await redis.aclose(close_connection_pool=True)
    try:
        yield task
    finally:
        stop.set()
        await asyncio.wait([task])
