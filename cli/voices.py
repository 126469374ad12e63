"""`gepard voices`: make, list, hear, share and delete voices of a running gateway."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import httpx
from rich.console import Console
from rich.table import Table

from cli.api_client import api_client, checked, connection_options
from cli.say_output import sink
from shared.errors import SettingsError
from shared.settings import Settings

_PATH = "voices"
_PAGE = 100
_POLL_S = 0.2
_STATEMENT = "given on the command line"


_OPERATOR_COMMANDS = ("sweep", "owned")


class _WithUpkeep(click.Group):
    """Adds the operator's commands; they are imported when one is asked for, since a client needs no database."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *_OPERATOR_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _OPERATOR_COMMANDS:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module("cli.upkeep"), cmd_name)
        return command


@click.group(cls=_WithUpkeep)
def voices() -> None:
    """Make, list, hear, share and delete voices."""


@voices.command()
@click.argument("clip", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", required=True, help="What to call it; unique among your voices.")
@click.option("--consent", default=_STATEMENT, help="Id of a recorded consent, or a statement.")
@click.option("--description", help="For the list.")
@click.option("--language", help="Tag of the clip's language, e.g. en.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is ready.")
@connection_options
@click.pass_obj
def add(
    settings: Settings,
    /,
    clip: Path,
    no_wait: bool,
    url: str | None,
    api_key: str,
    **texts: str | None,
) -> None:
    """Make a voice of CLIP: wav, mp3, m4a, aac, ogg, opus, flac or webm; its id is printed."""
    try:
        data = clip.read_bytes()
    except OSError as error:
        raise click.ClickException(f"cannot read {clip}: {error.strerror}") from error
    form = {name: text for name, text in texts.items() if text is not None}
    with api_client(url, api_key, settings.server) as client:
        voice = checked(client.post(_PATH, data=form, files={"audio_sample": (clip.name, data)})).json()
        if voice["note"]:
            click.echo(voice["note"], err=True)
        # Pending without a model that takes clips: it is made when one is there.
        while not no_wait and voice["status"] == "pending" and voice["models"]:
            time.sleep(_POLL_S)
            voice = checked(client.get(f"{_PATH}/{voice['id']}")).json()
    for model in voice["models"]:
        reason = f": {model['reason']}" if model["reason"] else ""
        click.echo(f"{model['model']}: {model['kind'] or model['status']}{reason}", err=True)
    # Alone on the standard output: ID=$(gepard voices add ...)
    click.echo(voice["id"])
    if voice["status"] == "failed":
        raise click.exceptions.Exit(1)


@voices.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@connection_options
@click.pass_obj
def list_voices(settings: Settings, as_json: bool, url: str | None, api_key: str) -> None:
    """List all voices, built-in ones first."""
    with api_client(url, api_key, settings.server) as client:
        found = list(_all(client))
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("NAME", "ID", "KIND", "STATUS", "DESCRIPTION"):
        table.add_column(title, overflow="fold", no_wrap=title == "ID")
    for voice in found:
        kinds = [model["kind"] for model in voice["models"] if model["kind"]]
        kind = voice["kind"] if voice["kind"] != "clip" else ", ".join(kinds) or "clip"
        status = f"{voice['status']}{', public' if voice['public'] and voice['kind'] == 'clip' else ''}"
        table.add_row(*map(_plain, (voice["name"], voice["id"], kind, status, voice["description"])))
    Console(markup=False).print(table)


@voices.command()
@click.argument("voice", metavar="ID_OR_NAME")
@connection_options
@click.pass_obj
def rm(settings: Settings, voice: str, url: str | None, api_key: str) -> None:
    """Delete a voice, its clip and all that was made of it."""
    with api_client(url, api_key, settings.server) as client:
        voice_id = _id_of(client, voice)
        checked(client.delete(f"{_PATH}/{voice_id}"))
    click.echo(f"Deleted {voice_id}.", err=True)


@voices.command()
@click.argument("voice", metavar="ID_OR_NAME")
@click.argument("name")
@connection_options
@click.pass_obj
def rename(settings: Settings, voice: str, name: str, url: str | None, api_key: str) -> None:
    """Give a voice another name."""
    with api_client(url, api_key, settings.server) as client:
        checked(client.post(f"{_PATH}/{_id_of(client, voice)}", json={"name": name}))


@voices.command()
@click.argument("voice", metavar="ID_OR_NAME")
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, allow_dash=True), help="File (mp3); - is stdout."
)
@connection_options
@click.pass_obj
def preview(settings: Settings, voice: str, output: str, url: str | None, api_key: str) -> None:
    """Write a short spoken sample of any voice into a file."""
    with sink(output) as target, api_client(url, api_key, settings.server) as client:
        target.write(checked(client.get(f"{_PATH}/{_id_of(client, voice)}/preview")).content)


@voices.command()
@click.argument("voice_id", metavar="ID")
@click.option("--data-dir", help="Folder of the SQLite database (default: data_dir).")
@click.pass_obj
def publish(settings: Settings, voice_id: str, data_dir: str | None) -> None:
    """Let every key speak with a voice. For the operator: works on the database itself."""
    _set_public(settings, voice_id, data_dir, is_public=True)


@voices.command()
@click.argument("voice_id", metavar="ID")
@click.option("--data-dir", help="Folder of the SQLite database (default: data_dir).")
@click.pass_obj
def unpublish(settings: Settings, voice_id: str, data_dir: str | None) -> None:
    """Leave a voice to its owner again. For the operator: works on the database itself."""
    _set_public(settings, voice_id, data_dir, is_public=False)


def _set_public(settings: Settings, voice_id: str, data_dir: str | None, *, is_public: bool) -> None:
    # Heavy to import; only these two commands need the database.
    from cli.options import overridden  # noqa: PLC0415
    from shared.database import Database, database_url  # noqa: PLC0415
    from voices import migrations  # noqa: PLC0415
    from voices.repository import VoiceRepository  # noqa: PLC0415

    async def run() -> bool:
        url = database_url(overridden(settings, data_dir=data_dir))
        await migrations.upgrade(url)
        async with Database(url) as database, database.session() as session:
            return await VoiceRepository(session).publish(voice_id, is_public=is_public)

    if not asyncio.run(run()):
        raise SettingsError(f"there is no voice with the id {voice_id!r}")


def _all(client: httpx.Client) -> Iterator[dict[str, Any]]:
    """Every voice, page by page."""
    after: dict[str, str] = {}
    while True:
        page = checked(client.get(_PATH, params={"limit": _PAGE, **after})).json()
        yield from page["data"]
        if not page["has_more"]:
            return
        after = {"after": page["last_id"]}


def _id_of(client: httpx.Client, wanted: str) -> str:
    """The id of a voice given by id or name; own voices before public ones of the same name."""
    matches: list[Callable[[dict[str, Any]], bool]] = [
        lambda voice: voice["id"] == wanted,
        lambda voice: voice["name"].casefold() == wanted.strip().casefold() and not voice["public"],
        lambda voice: voice["name"].casefold() == wanted.strip().casefold(),
    ]
    found = list(_all(client))
    for match in matches:
        for voice in found:
            if match(voice):
                return str(voice["id"])
    raise click.ClickException(f"there is no voice {wanted!r}; see `gepard voices list`")


def _plain(text: str) -> str:
    """Nothing that would steer the terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)
