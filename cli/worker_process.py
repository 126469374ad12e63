"""`gepard worker`: the engine side alone."""

import asyncio
import os
import signal
from typing import assert_never

import click
import uvloop

from cli.gepard import make_gepard
from cli.options import overridden
from cli.parent import end_with_parent
from cli.redis_check import require_redis
from shared.errors import EngineBroken
from shared.settings import Settings
from shared.telemetry import configure_logging
from workers.engines.base import Engine
from workers.worker import run_worker


def make_engine(settings: Settings) -> Engine:
    """The engine that `worker.engine` names; only its own libraries are imported.

    Raises SettingsError when what it needs is not installed or not there.
    """
    match settings.worker.engine:
        case "hibari":
            from workers.engines.hibari import HibariEngine  # noqa: PLC0415

            return HibariEngine(num_threads=settings.worker.threads)
        case "gepard":
            return make_gepard(settings)
        case _:
            assert_never(settings.worker.engine)


@click.command()
@click.option("--redis-url", help="Redis or Valkey to use (default: redis.url).")
@click.option("--parent", type=int, hidden=True, help="Process to end with.")
@click.pass_obj
def worker(settings: Settings, redis_url: str | None, parent: int | None) -> None:
    """Run a worker alone, against any Redis."""
    if parent is not None:
        end_with_parent(parent)
    settings = overridden(settings, redis_url=redis_url)
    configure_logging(settings.log, process="worker")
    uvloop.run(_run(settings))


async def _run(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stop.set)
    await require_redis(settings.redis.url)
    try:
        await run_worker(make_engine(settings), settings, stop=stop)
    except EngineBroken as error:
        click.echo(f"Error: {error}", err=True)
        # At once: a thread that hangs in the engine would keep the process, and its successor, waiting.
        os._exit(1)
