"""Command-line options on top of the settings."""

import click
from msgspec.structs import replace

from shared.settings import Settings

PORT = click.IntRange(0, 65535)
"""0: any free port."""


def overridden(
    settings: Settings,
    *,
    redis_url: str | None = None,
    host: str | None = None,
    port: int | None = None,
    allow_remote: bool | None = None,
    data_dir: str | None = None,
) -> Settings:
    """The settings with what was given on the command line."""
    server = {"host": host, "port": port, "allow_remote": allow_remote}
    given = {name: value for name, value in server.items() if value is not None}
    settings = replace(settings, server=replace(settings.server, **given))
    if redis_url is not None:
        settings = replace(settings, redis=replace(settings.redis, url=redis_url))
    if data_dir is not None:
        settings = replace(settings, data_dir=data_dir)
    return settings
