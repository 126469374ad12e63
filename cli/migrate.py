"""`gepard migrate`: bring the database up to date before anything else starts."""

import asyncio

import click
from msgspec.structs import replace

from cli.options import overridden
from cli.registry import prepare
from shared.settings import Settings
from shared.telemetry import configure_logging


@click.command()
@click.option("--data-dir", help="Folder of the SQLite database (default: data_dir).")
@click.pass_obj
def migrate(settings: Settings, data_dir: str | None) -> None:
    """Bring the database up to date and store the key of the settings (auth.api_key), then end.

    Gateways do the same at their start, one at a time; where this has run they find nothing to do.
    """
    settings = overridden(settings, data_dir=data_dir)
    configure_logging(replace(settings.log, level="warning"), process="migrate")
    has_keys = asyncio.run(prepare(settings))
    keys = "There are API keys." if has_keys else "There are no API keys yet: `gepard keys create NAME`."
    click.echo(f"The database is up to date. {keys}", err=True)
