"""The `gepard` command."""

from pathlib import Path

import click

from cli.gateway_process import gateway
from cli.keys import keys
from cli.say import say
from cli.serve import serve
from cli.version import VERSION
from cli.worker_process import worker
from shared.errors import SettingsError
from shared.settings import load_settings


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="gepard")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file (default: ./config.yaml).",
)
@click.pass_context
def main(context: click.Context, config: Path | None) -> None:
    """Self-hosted, OpenAI-compatible text to speech."""
    try:
        context.obj = load_settings(config)
    except SettingsError as error:
        raise click.ClickException(str(error)) from error


for command in (serve, gateway, worker, say, keys):
    main.add_command(command)
