"""`gepard worker`: the engine side alone."""

import asyncio
import signal

import click
import uvloop

from cli.options import overridden, require_redis
from shared.errors import EngineBroken
from shared.settings import Settings
from shared.telemetry import configure_logging, get_logger
from workers.engines.base import Engine
from workers.worker import run_worker

log = get_logger()


def make_engine(settings: Settings) -> Engine:
    """The engine that `worker.engine` names; its heavy imports happen here, not at the start of the CLI."""
    from workers.engines.hibari import HibariEngine  # noqa: PLC0415

    return HibariEngine(num_threads=settings.worker.threads)


@click.command()
@click.option("--redis-url", help="Redis or Valkey to use (default: redis.url).")
@click.pass_obj
def worker(settings: Settings, redis_url: str | None) -> None:
    """Run a worker alone, against any Redis."""
    settings = require_redis(overridden(settings, redis_url=redis_url))
    configure_logging(settings.log, process="worker")
    try:
        uvloop.run(_run(settings))
    except EngineBroken as error:
        raise click.ClickException(str(error)) from error


async def _run(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stop.set)
    await run_worker(make_engine(settings), settings, stop=stop)
