"""`gepard gateway`: the HTTP side alone."""

import asyncio
import logging
import signal

import click
import uvicorn

from cli.draining_server import DrainingServer
from cli.options import PORT, overridden
from cli.parent import end_with_parent
from cli.redis_check import require_redis
from cli.registry import prepare
from cli.sockets import inherit, listen, url_of
from cli.version import VERSION
from gateway.app import build_app
from gateway.drain import Drain
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
@click.option("--port", type=PORT, help="Port to listen on (default: server.port).")
@click.option("--allow-remote", is_flag=True, default=None, help="Serve others than this machine, without keys.")
@click.option("--fd", "fds", type=int, multiple=True, hidden=True, help="Listening socket inherited from serve.")
@click.option("--parent", type=int, hidden=True, help="Process to end with.")
@click.pass_obj
def gateway(
    settings: Settings,
    redis_url: str | None,
    host: str | None,
    port: int | None,
    allow_remote: bool | None,
    fds: tuple[int, ...],
    parent: int | None,
) -> None:
    """Run a gateway alone, against any Redis."""
    if parent is not None:
        end_with_parent(parent)
    settings = overridden(settings, redis_url=redis_url, host=host, port=port, allow_remote=allow_remote)
    configure_logging(settings.log, process="gateway")
    uvicorn_log = logging.getLogger("uvicorn.error")
    uvicorn_log.setLevel(logging.WARNING)
    uvicorn_log.addFilter(_ExpectedCuts())
    has_keys = asyncio.run(prepare(settings))
    sockets = inherit(fds, settings.server, has_keys=has_keys) if fds else listen(settings.server, has_keys=has_keys)
    asyncio.run(require_redis(settings.redis.url))
    drain = Drain()
    config = uvicorn.Config(
        build_app(settings, version=VERSION, drain=drain),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=round(settings.worker.drain_s),
    )
    server = DrainingServer(config, drain, delay_s=settings.server.drain_delay_s)
    for signum in (signal.SIGINT, signal.SIGTERM):
        # At its end uvicorn raises the signal again that ended it: with this the process exits with status 0.
        signal.signal(signum, server.handle_exit)
    urls = [url_of(sock) for sock in sockets]
    log.info("gateway_listening", urls=urls, message=f"The gateway listens at {' and '.join(urls)}.")
    server.run(sockets=sockets)
    log.info("gateway_stopped")
