"""`gepard keys`: make, list, change and revoke API keys. Running gateways follow within seconds."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import click
import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from cli.lexicon_file import read_lexicon
from cli.options import overridden
from shared.database import Database, database_url
from shared.settings import Settings
from shared.telemetry import configure_logging
from voices import key_lexicon, migrations
from voices.api_keys import MAX_NAME_CHARS, ApiKey, KeyLimits, KeyRegistry

T = TypeVar("T")

_LIMIT = click.IntRange(min=1)
_FILE = click.Path(path_type=Path, dir_okay=False)
_NO_FILE = Path("-")
_TIME_FORMAT = "%Y-%m-%d %H:%M"


@click.group()
@click.option("--data-dir", help="Folder of the SQLite database (default: data_dir).")
@click.pass_context
def keys(context: click.Context, data_dir: str | None) -> None:
    """Make, list, change and revoke API keys."""
    context.obj = overridden(context.obj, data_dir=data_dir)
    # To the standard error: the standard output is for the answer alone.
    configure_logging(replace(context.obj.log, level="warning"), process="keys")


@keys.command()
@click.argument("name")
@click.option("--requests-per-minute", type=_LIMIT, help="Requests for speech in any 60 seconds (default: no limit).")
@click.option("--characters-per-day", type=_LIMIT, help="Characters of text a day, UTC (default: no limit).")
@click.option("--concurrent-streams", type=_LIMIT, help="Requests for speech at once (default: no limit).")
@click.option("--lexicon", type=_FILE, help="YAML file of words and what is said for them.")
@click.pass_obj
def create(
    settings: Settings,
    name: str,
    requests_per_minute: int | None,
    characters_per_day: int | None,
    concurrent_streams: int | None,
    lexicon: Path | None,
) -> None:
    """Make a key and print it: it is stored only as a hash and cannot be shown again."""
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise click.UsageError(f"a name has 1 to {MAX_NAME_CHARS} printable characters")
    limits = KeyLimits(
        requests_per_minute=requests_per_minute,
        characters_per_day=characters_per_day,
        concurrent_streams=concurrent_streams,
    )
    entries = None if lexicon is None else read_lexicon(lexicon, settings.limits.max_lexicon_entries)
    made, key = _with_registry(settings, lambda registry: registry.create(name, limits, entries))
    if entries is not None:
        click.echo(f"Lexicon: {_counted(len(entries))}.", err=True)
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
        click.echo(msgspec.json.format(msgspec.json.encode([_as_json(key) for key in found])))
        return
    console = Console()
    table = Table(box=None, pad_edge=False)
    for title in ("ID", "NAME", "PREFIX", "LIMITS", "LEXICON", "CREATED (UTC)", "LAST USED", "REVOKED"):
        table.add_column(title, overflow="fold", no_wrap=title == "ID")
    for key in found:
        table.add_row(
            key.id,
            key.name,
            f"{key.prefix}…",
            _limits(key),
            _lexicon(key),
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


@keys.command()
@click.argument("key", metavar="ID_OR_NAME")
@click.argument("file", metavar="FILE.yaml", type=_FILE, required=False)
@click.option("--clear", is_flag=True, help="Remove the lexicon, as - for the file does.")
@click.pass_obj
def lexicon(settings: Settings, key: str, file: Path | None, clear: bool) -> None:
    """Give a key a lexicon, in place of the one it has: lines such as `Gepard: gay part`."""
    if clear == (file is not None):
        raise click.UsageError("name either a file or --clear")
    remove = clear or file == _NO_FILE
    entries = None if file is None or remove else read_lexicon(file, settings.limits.max_lexicon_entries)
    changed = _with_registry(settings, lambda registry: registry.set_lexicon(key, entries))
    what = "No lexicon" if entries is None else _counted(len(entries))
    click.echo(f"{what} for {changed.name!r} ({changed.id}); running gateways follow within seconds.", err=True)


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


def _as_json(key: ApiKey) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(key)
    del fields["lexicon"]
    return {**fields, "lexicon_entries": _num_entries(key)}


def _num_entries(key: ApiKey) -> int | None:
    """0 without a lexicon, None for one that cannot be read."""
    if key.lexicon is None:
        return 0
    try:
        return len(key_lexicon.load(key.lexicon))
    except ValueError:
        return None


def _lexicon(key: ApiKey) -> str:
    num_entries = _num_entries(key)
    if num_entries is None:
        return "unreadable"
    return _counted(num_entries) if num_entries else "none"


def _counted(num_entries: int) -> str:
    return "1 entry" if num_entries == 1 else f"{num_entries} entries"


def _time(when: datetime | None) -> str:
    return "-" if when is None else f"{when:{_TIME_FORMAT}}"
