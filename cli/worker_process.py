"""`gepard worker`: the engine side alone."""

import asyncio
import os
import signal
from pathlib import Path
from typing import assert_never

import click
import uvloop

from cli.engine_parts import START_TIMEOUT_S, engine_parts
from cli.gepard import make_gepard, require_gepard
from cli.options import overridden
from cli.parent import end_with_parent
from cli.parts import probe
from cli.redis_check import require_redis
from cli.supervisor import Supervisor
from cli.until_stopped import until_stopped
from shared.errors import EngineBroken, SettingsError
from shared.settings import Settings
from shared.telemetry import configure_logging
from workers.engines.base import Engine
from workers.worker import run_worker


def make_engine(settings: Settings, host: Path | None = None) -> Engine:
    """The engine that `worker.engine` names; only its own libraries are imported. `host`: where its model is.

    Raises SettingsError when what it needs is not installed or not there.
    """
    match settings.worker.engine:
        case "hibari":
            from workers.engines.hibari import HibariEngine  # noqa: PLC0415

            return HibariEngine(num_threads=settings.worker.threads)
        case "gepard":
            if host is None:
                raise SettingsError("the engine gepard needs its host")
            return make_gepard(settings, host)
        case _:
            assert_never(settings.worker.engine)


@click.command()
@click.option("--redis-url", help="Redis or Valkey to use (default: redis.url).")
@click.option("--parent", type=int, hidden=True, help="Process to end with.")
@click.option("--host", type=click.Path(path_type=Path), hidden=True, help="Socket of a running engine host.")
@click.pass_context
def worker(context: click.Context, redis_url: str | None, parent: int | None, host: Path | None) -> None:
    """Run a worker alone, against any Redis; for the engine gepard its engine host, too, and several workers."""
    if parent is not None:
        end_with_parent(parent)
    settings = overridden(context.obj, redis_url=redis_url)
    configure_logging(settings.log, process="worker")
    if settings.worker.engine == "gepard" and host is None:
        require_gepard(settings)
        config = context.parent.params.get("config") if context.parent else None
        asyncio.run(_supervise(settings, config))
    else:
        uvloop.run(_run(settings, host))


async def _supervise(settings: Settings, config: Path | None) -> None:
    """Keep the host and its workers running until a signal says to stop."""
    await require_redis(settings.redis.url)
    supervisor = Supervisor(start_timeout_s=START_TIMEOUT_S[settings.worker.engine])

    async def work() -> None:
        async with probe("", settings.redis.url) as ask:
            with engine_parts(settings, settings.redis.url, config, ask) as groups:
                async with supervisor:
                    for group in groups:
                        supervisor.start(*group)
                    await supervisor.until_failure()

    await until_stopped(supervisor, work())


async def _run(settings: Settings, host: Path | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stop.set)
    await require_redis(settings.redis.url)
    try:
        await run_worker(make_engine(settings, host), settings, stop=stop)
    except EngineBroken as error:
        click.echo(f"Error: {error}", err=True)
        # At once: a thread that hangs in the engine would keep the process, and its successor, waiting.
        os._exit(1)
