"""`gepard gateway`: the HTTP side alone."""

import asyncio
import logging

import click
import uvicorn

from cli.options import overridden, require_redis
from cli.sockets import inherit, listen, url_of
from cli.version import VERSION
from shared.errors import DatabaseError, SettingsError
from shared.settings import Settings
from shared.telemetry import configure_logging, get_logger

log = get_logger()


class _ExpectedCuts(logging.Filter):
    """A body left without its end is how a failed reply is cut; the request log says why."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "without completing response" not in record.getMessage()


@click.command()
@click.option("--redis-url", help="Redis or Valkey to use (default: redis.url).")
@click.option("--host", help="Address to listen on (default: server.host).")
@click.option("--port", type=int, help="Port to listen on (default: server.port).")
@click.option("--allow-remote", is_flag=True, default=None, help="Serve others than this machine, without keys.")
@click.option("--fd", "fds", type=int, multiple=True, hidden=True, help="Listening socket inherited from serve.")
@click.pass_obj
def gateway(
    settings: Settings,
    redis_url: str | None,
    host: str | None,
    port: int | None,
    allow_remote: bool | None,
    fds: tuple[int, ...],
) -> None:
    """Run a gateway alone, against any Redis."""
    # Heavy: only this command pays for the web framework and the database's libraries.
    from cli.registry import prepare  # noqa: PLC0415
    from gateway.app import build_app  # noqa: PLC0415

    settings = require_redis(overridden(settings, redis_url=redis_url, host=host, port=port, allow_remote=allow_remote))
    configure_logging(settings.log, process="gateway")
    logging.getLogger("uvicorn.error").addFilter(_ExpectedCuts())
    try:
        has_keys = asyncio.run(prepare(settings))
        if fds:
            sockets = inherit(fds, settings.server, has_keys=has_keys)
        else:
            sockets = listen(settings.server, has_keys=has_keys)
    except (SettingsError, DatabaseError) as error:
        raise click.ClickException(str(error)) from error
    log.info("gateway_listening", urls=[url_of(sock) for sock in sockets])
    config = uvicorn.Config(
        build_app(settings, version=VERSION),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=round(settings.worker.drain_s),
    )
    uvicorn.Server(config).run(sockets=sockets)
