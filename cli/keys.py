"""`gepard keys`: make, list and revoke API keys. Running gateways follow within seconds."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

import click
import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from cli.options import overridden
from shared.database import Database, database_url
from shared.settings import Settings
from shared.telemetry import configure_logging
from voices import migrations
from voices.api_keys import MAX_NAME_CHARS, ApiKey, KeyLimits, KeyRegistry

T = TypeVar("T")

_LIMIT = click.IntRange(min=1)
_TIME_FORMAT = "%Y-%m-%d %H:%M"


@click.group()
@click.option("--data-dir", help="Folder of the SQLite database (default: data_dir).")
@click.pass_context
def keys(context: click.Context, data_dir: str | None) -> None:
    """Make, list and revoke API keys."""
    context.obj = overridden(context.obj, data_dir=data_dir)
    # To the standard error: the standard output is for the answer alone.
    configure_logging(replace(context.obj.log, level="warning"), process="keys")


@keys.command()
@click.argument("name")
@click.option("--requests-per-minute", type=_LIMIT, help="Requests for speech in any 60 seconds (default: no limit).")
@click.option("--characters-per-day", type=_LIMIT, help="Characters of text a day, UTC (default: no limit).")
@click.option("--concurrent-streams", type=_LIMIT, help="Requests for speech at once (default: no limit).")
@click.pass_obj
def create(
    settings: Settings,
    name: str,
    requests_per_minute: int | None,
    characters_per_day: int | None,
    concurrent_streams: int | None,
) -> None:
    """Make a key and print it: it is stored only as a hash and cannot be shown again."""
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise click.UsageError(f"a name has 1 to {MAX_NAME_CHARS} printable characters")
    limits = KeyLimits(
        requests_per_minute=requests_per_minute,
        characters_per_day=characters_per_day,
        concurrent_streams=concurrent_streams,
    )
    made, key = _with_registry(settings, lambda registry: registry.create(name, limits))
    click.echo(f"Key {made.name!r} ({made.id}); keep it, it is not shown again:", err=True)
    # Alone on the standard output: KEY=$(gepard keys create NAME)
    click.echo(key)


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def list_keys(settings: Settings, as_json: bool) -> None:
    """List the keys, revoked ones too; never the keys themselves."""
    found = _with_registry(settings, lambda registry: registry.all())
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
        return
    console = Console()
    table = Table(box=None, pad_edge=False)
    for title in ("ID", "NAME", "PREFIX", "LIMITS", "CREATED (UTC)", "LAST USED", "REVOKED"):
        table.add_column(title, overflow="fold", no_wrap=title == "ID")
    for key in found:
        table.add_row(
            key.id,
            key.name,
            f"{key.prefix}…",
            _limits(key),
            _time(key.created_at),
            _time(key.last_used_at),
            _time(key.revoked_at),
        )
    console.print(table if found else "No keys: only this machine is served. Make one with `gepard keys create NAME`.")


@keys.command()
@click.argument("key", metavar="ID_OR_NAME")
@click.pass_obj
def revoke(settings: Settings, key: str) -> None:
    """Revoke a key, for good."""
    revoked = _with_registry(settings, lambda registry: registry.revoke(key))
    click.echo(f"Revoked {revoked.name!r} ({revoked.id}); running gateways refuse it within seconds.", err=True)


def _with_registry(settings: Settings, work: Callable[[KeyRegistry], Awaitable[T]]) -> T:
    async def run() -> T:
        url = database_url(settings)
        await migrations.upgrade(url)
        async with Database(url) as database:
            return await work(KeyRegistry(database))

    return asyncio.run(run())


def _limits(key: ApiKey) -> str:
    limits = key.limits
    parts = (
        (limits.requests_per_minute, "requests/min"),
        (limits.characters_per_day, "characters/day"),
        (limits.concurrent_streams, "streams"),
    )
    return ", ".join(f"{limit} {unit}" for limit, unit in parts if limit is not None) or "none"


def _time(when: datetime | None) -> str:
    return "-" if when is None else f"{when:{_TIME_FORMAT}}"
