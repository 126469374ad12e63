"""The `gepard` command."""

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from cli.version import VERSION
from shared.errors import GepardError
from shared.settings import load_settings

_COMMANDS = {
    "serve": "cli.serve:serve",
    "gateway": "cli.gateway_process:gateway",
    "worker": "cli.worker_process:worker",
    "host": "cli.host_process:host",
    "say": "cli.say:say",
    "voices": "cli.voices:voices",
    "bench": "cli.bench.command:bench",
    "download": "cli.download:download",
    "doctor": "cli.doctor:doctor",
    "keys": "cli.keys:keys",
    "migrate": "cli.migrate:migrate",
    "check": "cli.check:check",
    "plan": "cli.plan:plan",
}


class _Commands(click.Group):
    """Imports a command when it is needed: `gepard say` does not wait for the server's libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401
        """Run a command; its own errors are one plain line and exit status 1."""
        try:
            return super().invoke(ctx)
        except GepardError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="gepard")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file (default: ./config.yaml).",
)
@click.pass_context
def main(context: click.Context, config: Path | None) -> None:
    """Self-hosted, OpenAI-compatible text to speech."""
    context.obj = load_settings(config)
