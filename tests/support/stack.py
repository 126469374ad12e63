"""A gateway on a real socket and workers, in this process, on a real Valkey."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx
import uvicorn
from arq.connections import ArqRedis

from cli.registry import prepare
from cli.sockets import listen, url_of
from gateway.app import build_app
from shared.broker.connection import connect
from shared.settings import Settings
from workers.engines.base import Engine
from workers.worker import run_worker


@dataclass
class RunningWorker:
    """A worker in this process."""

    task: asyncio.Task[None]
    stopping: asyncio.Event

    async def stop(self) -> None:
        """End it as SIGTERM does."""
        self.stopping.set()
        await asyncio.wait([self.task])

    async def kill(self) -> None:
        """End it without a chance to say anything to its streams."""
        self.task.cancel()
        await asyncio.wait([self.task])


@dataclass
class Stack:
    """What a test talks to."""

    settings: Settings
    redis: ArqRedis
    url: str = ""
    workers: list[RunningWorker] = field(default_factory=list)
    engine: Engine | None = None

    async def start_worker(self, engine: Engine) -> RunningWorker:
        """Start a worker and wait until a gateway would see it."""
        before = await self.redis.zcard("gepard:workers")
        stopping = asyncio.Event()
        task = asyncio.create_task(run_worker(engine, self.settings, stop=stopping))
        worker = RunningWorker(task, stopping)
        self.workers.append(worker)
        while await self.redis.zcard("gepard:workers") == before:
            if task.done():
                task.result()
            await asyncio.sleep(0.01)
        return worker

    async def ready(self) -> None:
        """Wait for the gateway to see a worker."""
        async with self.client() as client:
            while (await client.get("/ready")).status_code != 200:
                await asyncio.sleep(0.02)

    def client(self, key: str | None = None) -> httpx.AsyncClient:
        """A plain HTTP client of the gateway, with a key or without."""
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=60, trust_env=False)

    async def keys(self) -> set[str]:
        """Every key in Redis but the workers' own."""
        names = {key.decode() async for key in self.redis.scan_iter()}
        return {name for name in names if not name.startswith(("gepard:heartbeat:", "gepard:workers"))}


@contextlib.asynccontextmanager
async def running_stack(settings: Settings, *engines: Engine) -> AsyncIterator[Stack]:
    """A gateway and one worker for each engine."""
    sockets = listen(settings.server, has_keys=await prepare(settings))
    config = uvicorn.Config(
        build_app(settings, version="test"), log_config=None, access_log=False, timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None
    redis = connect(settings.redis.url, max_connections=64)
    stack = Stack(settings, redis, url_of(sockets[0]))
    serving = asyncio.create_task(server.serve(sockets=sockets))
    try:
        while not server.started:
            if serving.done():
                serving.result()
            await asyncio.sleep(0.01)
        for engine in engines:
            await stack.start_worker(engine)
        if engines:
            await stack.ready()
        yield stack
    finally:
        for worker in stack.workers:
            await worker.stop()
        server.should_exit = True
        await asyncio.wait([serving])
        await redis.aclose(close_connection_pool=True)
        for sock in sockets:
            sock.close()
