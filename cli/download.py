"""`gepard download`: the weights of Gepard and of its codec, from the Hugging Face hub."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from cli.data_folder import make_folder
from cli.gepard import codec_file, missing_packages
from cli.options import overridden
from shared.errors import CheckpointError, SettingsError
from shared.settings import Settings

GEPARD_REPO = "nineninesix/gepard-1.0"
CODEC_REPO = "nvidia/nemo-nano-codec-22khz-1.89kbps-21.5fps"


@dataclass(frozen=True, slots=True)
class Weights:
    """A repository, what of it is wanted, under which terms, and how it is tried out."""

    title: str
    repo: str
    folder: Path
    patterns: tuple[str, ...]
    licence: str
    load: Callable[[Path], None]


@click.command()
@click.option("--data-dir", help="Folder for data (default: data_dir).")
@click.option("--gepard-repo", default=GEPARD_REPO, show_default=True, help="Checkpoint, e.g. a fine-tuned one.")
@click.option("--codec-repo", default=CODEC_REPO, show_default=True, help="Codec.")
@click.pass_obj
def download(settings: Settings, data_dir: str | None, gepard_repo: str, codec_repo: str) -> None:
    """Fetch the weights that the engine `gepard` needs; an interrupted download goes on where it was.

    The token of a repository with terms to accept comes from HF_TOKEN or from `hf auth login`.
    """
    missing = missing_packages("huggingface_hub")
    if missing is not None:
        raise SettingsError(missing)
    from cli.hub import fetch  # noqa: PLC0415 - needs the extra

    settings = overridden(settings, data_dir=data_dir)
    wanted = (
        Weights(
            title="Gepard 1.0",
            repo=gepard_repo,
            folder=settings.gepard_checkpoint_path(),
            patterns=("*.json", "*.jinja", "*.txt", "model.safetensors", "README.md", "LICENSE*"),
            licence="Apache License 2.0",
            load=_load_checkpoint,
        ),
        Weights(
            title="NVIDIA NanoCodec",
            repo=codec_repo,
            folder=_folder_of(settings.gepard_codec_path()),
            patterns=("*.nemo", "README.md", "LICENSE*"),
            licence="NVIDIA Open Model License, not Apache: read it at the repository before you use the weights",
            load=_load_codec,
        ),
    )
    for weights in wanted:
        click.echo(f"{weights.title} ({weights.repo})\n  Licence: {weights.licence}\n  To: {weights.folder}")
        make_folder(weights.folder)
        fetch(weights.repo, weights.patterns, weights.folder)
        weights.load(weights.folder)
        click.echo("  Checked: it loads.")
    click.echo("Now set `model: gepard` and `worker.engine: gepard` (config.yaml), and run `gepard serve`.")


def _load_checkpoint(folder: Path) -> None:
    from workers.gepard.checkpoint import load_checkpoint  # noqa: PLC0415 - needs PyTorch

    load_checkpoint(folder)


def _load_codec(folder: Path) -> None:
    from workers.nanocodec.archive import read_archive  # noqa: PLC0415 - a second that `--help` need not take

    path = codec_file(folder)
    if path is None:
        raise CheckpointError(f"{folder}: expected exactly one .nemo file")
    read_archive(path)


def _folder_of(path: Path) -> Path:
    return path.parent if path.suffix == ".nemo" else path
