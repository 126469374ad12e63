"""`gepard check`: the health command of a container. Quick to start, and it looks at this machine alone."""

import asyncio
import http.client
import time
from http import HTTPStatus

import click
from redis.exceptions import RedisError

from cli.options import PORT, overridden
from cli.sockets import http_url
from shared.broker.connection import connect
from shared.broker.heartbeat import TTL_MS, Fleet, lives_here
from shared.errors import GepardError
from shared.settings import Settings

_GATEWAY_TIMEOUT_S = 5.0
_REDIS_TIMEOUT_S = 3.0
_POLL_S = 0.1


class Unhealthy(GepardError):
    """What was asked for does not answer."""


@click.group()
def check() -> None:
    """Say by the exit status whether a part on this machine is well."""


@check.command()
@click.option("--port", type=PORT, help="Port of the gateway (default: server.port).")
@click.pass_obj
def gateway(settings: Settings, port: int | None) -> None:
    """Ask the gateway of this machine for /health."""
    server = overridden(settings, port=port).server
    authority = http_url(server.host, server.port).removeprefix("http://")
    connection = http.client.HTTPConnection(authority, timeout=_GATEWAY_TIMEOUT_S)
    try:
        connection.request("GET", "/health")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise Unhealthy(f"no gateway answers at {authority}: {error}") from error
    finally:
        connection.close()
    if status != HTTPStatus.OK:
        raise Unhealthy(f"the gateway at {authority} answers /health with {status}")
    click.echo("The gateway answers.", err=True)


@check.command()
@click.option("--redis-url", help="Redis or Valkey to use (default: redis.url).")
@click.pass_obj
def worker(settings: Settings, redis_url: str | None) -> None:
    """Look for the heartbeat of a worker of this machine.

    While Redis does not answer this says nothing against the worker, which waits for it: a restart would not help.
    """
    url = overridden(settings, redis_url=redis_url).redis.url
    try:
        beats = asyncio.run(_beats(url))
    except (RedisError, OSError, TimeoutError) as error:
        click.echo(f"Redis does not answer ({type(error).__name__}): the worker waits for it.", err=True)
        return
    if not beats:
        raise Unhealthy("no worker of this machine beats")
    click.echo("The worker beats.", err=True)


async def _beats(url: str) -> bool:
    """Whether a worker of this machine beats, or does so within the life of one heartbeat."""
    redis = connect(url, max_connections=1)
    try:
        fleet = Fleet(redis)
        deadline = time.monotonic() + TTL_MS / 1000
        while True:
            async with asyncio.timeout(_REDIS_TIMEOUT_S):
                await fleet.refresh()
            if any(lives_here(beat.worker) for beat in fleet.workers()):
                return True
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL_S)
    finally:
        await redis.aclose(close_connection_pool=True)
