"""`gepard serve`: everything on one machine, with one command."""

import asyncio
import contextlib
import socket
from pathlib import Path

import click

from cli.banner import banner
from cli.data_folder import owned
from cli.engine_parts import START_TIMEOUT_S, engine_parts
from cli.options import PORT, overridden
from cli.parts import Probe, gateway_part, probe
from cli.redis_check import require_redis
from cli.sockets import listen, needs_key, url_of
from cli.supervisor import PartFailed, Supervisor
from cli.until_stopped import until_stopped
from cli.valkey import embedded_valkey
from shared.settings import Settings
from shared.telemetry import configure_logging

_POLL_S = 0.05
_SEEN_TIMEOUT_S = 30.0


@click.command()
@click.option("--host", help="Address to listen on (default: server.host).")
@click.option("--port", type=PORT, help="Port to listen on (default: server.port).")
@click.option("--allow-remote", is_flag=True, default=None, help="Serve others than this machine, without keys.")
@click.option("--data-dir", help="Folder for data (default: data_dir).")
@click.option("--redis-url", help="Use this Redis instead of starting a Valkey.")
@click.pass_context
def serve(
    context: click.Context,
    host: str | None,
    port: int | None,
    allow_remote: bool | None,
    data_dir: str | None,
    redis_url: str | None,
) -> None:
    """Start Valkey, a worker and a gateway, and keep them running."""
    settings = overridden(
        context.obj, host=host, port=port, allow_remote=allow_remote, data_dir=data_dir, redis_url=redis_url
    )
    configure_logging(settings.log, process="serve")
    config = context.parent.params.get("config") if context.parent else None
    # First the lock: whoever starts it twice hears so, not that the port is taken. Without a Valkey there are
    # no data.
    with contextlib.nullcontext() if settings.redis.url else owned(settings.data_path()):
        sockets = listen(settings.server, has_keys=needs_key(settings.server) and _has_keys(settings))
        asyncio.run(_run(settings, sockets, config))


def _has_keys(settings: Settings) -> bool:
    # Slow to import, and needed only where others than this machine could reach the port.
    from cli.registry import prepare  # noqa: PLC0415

    return asyncio.run(prepare(settings))


async def _run(settings: Settings, sockets: list[socket.socket], config: Path | None) -> None:
    """Serve until a signal says to stop. Raises PartFailed or SettingsError when that cannot be."""
    supervisor = Supervisor(start_timeout_s=START_TIMEOUT_S[settings.worker.engine])
    await until_stopped(supervisor, _serve(settings, sockets, config, supervisor))


async def _serve(settings: Settings, sockets: list[socket.socket], config: Path | None, supervisor: Supervisor) -> None:
    """Start everything, say so, and keep it running; ends only by being cancelled or by raising."""
    url = url_of(sockets[0])
    async with contextlib.AsyncExitStack() as stack:
        redis_url = settings.redis.url
        if redis_url:
            await require_redis(redis_url)
            await stack.enter_async_context(supervisor)
        else:
            # Entered before the supervisor: the socket's folder is removed after Valkey has ended.
            valkey = await stack.enter_async_context(embedded_valkey(settings.data_path()))
            await stack.enter_async_context(supervisor)
            supervisor.start(valkey.part())
            await supervisor.until_ready()
            redis_url = valkey.url
        ask = await stack.enter_async_context(probe(url, redis_url))
        # Together: each takes a second or two to import what it needs. The gateway is last, so that it is
        # stopped first: its clients hear the end of their replies.
        engine = stack.enter_context(engine_parts(settings, redis_url, config, ask))
        for group in engine:
            supervisor.start(*group)
        supervisor.start(gateway_part(settings, redis_url, config, ask, sockets))
        await supervisor.until_ready()
        await _until_seen(ask)
        click.echo(banner(settings, url))
        await supervisor.until_failure()


async def _until_seen(ask: Probe) -> None:
    """Wait for the gateway's next look at the workers. Raises PartFailed when it does not find ours."""
    try:
        async with asyncio.timeout(_SEEN_TIMEOUT_S):
            while not await ask.gateway_sees_worker():
                await asyncio.sleep(_POLL_S)
    except TimeoutError as error:
        raise PartFailed("the gateway does not find the worker") from error
