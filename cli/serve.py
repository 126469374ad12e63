"""`gepard serve`: everything on one machine, with one command."""

import asyncio
import contextlib
import fcntl
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import click
import httpx

from cli.options import overridden
from cli.sockets import listen, needs_key, url_of
from cli.supervisor import Part, PartFailed, Supervisor
from cli.valkey import EmbeddedValkey
from shared.errors import DatabaseError, SettingsError
from shared.settings import Settings
from shared.telemetry import configure_logging

_START_TIMEOUT_S = 120.0
_STOP_MARGIN_S = 5.0
_VALKEY_STOP_S = 10.0

_BANNER = """
Speech is served at {url}/v1

  curl {url}/v1/audio/speech -H 'Content-Type: application/json' \\
       -d '{{"model": "tts-1", "voice": "{voice}", "input": "Hello there!"}}' -o hello.mp3

  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="none")
  client.audio.speech.create(model="tts-1", voice="{voice}", input="Hello there!").write_to_file("hello.mp3")

API page: {url}/docs     Voices: {url}/v1/voices     Stop: Ctrl-C
"""


@click.command()
@click.option("--host", help="Address to listen on (default: server.host).")
@click.option("--port", type=int, help="Port to listen on (default: server.port).")
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
    try:
        sockets = listen(settings.server, has_keys=needs_key(settings.server) and _has_keys(settings))
        with _locked(settings.data_path()):
            asyncio.run(_serve(settings, sockets, config))
    except (SettingsError, DatabaseError, PartFailed) as error:
        raise click.ClickException(str(error)) from error


def _has_keys(settings: Settings) -> bool:
    # Heavy to import, and needed only to decide whether others than this machine may be served.
    from cli.registry import prepare  # noqa: PLC0415

    return asyncio.run(prepare(settings))


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Own the data folder. Raises SettingsError when another serve does, or it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise SettingsError(f"cannot write to the data folder {folder}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SettingsError(f"another `gepard serve` uses the data folder {folder} (--data-dir)") from error
        yield


async def _serve(settings: Settings, sockets: list[socket.socket], config: Path | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stop.set)
    url = url_of(sockets[0])
    async with Supervisor() as supervisor, _redis(settings, supervisor) as redis_url:
        gepard = [sys.executable, "-m", "cli", *(["--config", str(config)] if config else [])]
        environment = {"GEPARD_REDIS_URL": redis_url, "GEPARD_DATA_DIR": str(settings.data_path())}
        gateway = Part(
            name="gateway",
            command=[*gepard, "gateway", *_gateway_options(settings, sockets)],
            ready=lambda: _answers(f"{url}/health"),
            stop_s=settings.worker.drain_s + _STOP_MARGIN_S,
            pass_fds=[sock.fileno() for sock in sockets],
            env=environment,
        )
        worker = Part(
            name="worker",
            command=[*gepard, "worker"],
            ready=lambda: _answers(f"{url}/ready"),
            stop_s=settings.worker.drain_s + _STOP_MARGIN_S,
            env=environment,
        )
        starting = asyncio.create_task(_start(supervisor, gateway, worker))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            click.echo(_BANNER.format(url=url, voice=settings.default_voice))
            await stopping
        starting.cancel()
        click.echo("Stopping ...", err=True)


async def _start(supervisor: Supervisor, gateway: Part, worker: Part) -> None:
    # Together: each takes a second or two to import what it needs.
    await asyncio.gather(
        supervisor.start(worker, timeout_s=_START_TIMEOUT_S),
        supervisor.start(gateway, timeout_s=_START_TIMEOUT_S),
    )


@contextlib.asynccontextmanager
async def _redis(settings: Settings, supervisor: Supervisor) -> AsyncIterator[str]:
    """The URL of the operator's Redis, or of an embedded Valkey started here."""
    if settings.redis.url:
        yield settings.redis.url
        return
    valkey = EmbeddedValkey(settings.data_path())
    await valkey.end_leftover()
    part = Part(name="valkey", command=valkey.command(), ready=valkey.answers, stop_s=_VALKEY_STOP_S)
    try:
        await supervisor.start(part, timeout_s=_START_TIMEOUT_S)
        yield valkey.url
    finally:
        valkey.clean()


def _gateway_options(settings: Settings, sockets: list[socket.socket]) -> list[str]:
    options = [f"--fd={sock.fileno()}" for sock in sockets]
    return [*options, "--allow-remote"] if settings.server.allow_remote else options


async def _answers(url: str) -> bool:
    async with httpx.AsyncClient(trust_env=False) as client:
        try:
            return (await client.get(url)).is_success
        except httpx.HTTPError:
            return False
