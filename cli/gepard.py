"""The engine `gepard` from the settings, or what is missing for it."""

from importlib.util import find_spec
from pathlib import Path

from shared.errors import SettingsError
from shared.settings import Settings
from workers.engines.base import Engine
from workers.gepard.config import CONFIG_FILE

EXTRA_HINT = "pip install 'gepard-gateway[gepard]' (in this repository: make setup-gepard)"
_PACKAGES = ("torch", "tokenizers")


def missing_packages(*more: str) -> str | None:
    """What the extra `gepard` would install and is not there, as a sentence; None if all is."""
    absent = [name for name in (*_PACKAGES, *more) if find_spec(name) is None]
    return f"not installed: {', '.join(absent)}; {EXTRA_HINT}" if absent else None


def codec_file(path: Path) -> Path | None:
    """The `.nemo` file that `path` is, or the only one in the folder that it is."""
    if not path.is_dir():
        return path if path.exists() else None
    files = sorted(path.glob("*.nemo"))
    return files[0] if len(files) == 1 else None


def missing_weights(settings: Settings) -> list[str]:
    """The weights that are not there, each with what to do about it."""
    checkpoint, codec = settings.gepard_checkpoint_path(), settings.gepard_codec_path()
    missing = []
    if not (checkpoint / CONFIG_FILE).exists():
        missing.append(f"no checkpoint in {checkpoint}: run `gepard download`, or set gepard.checkpoint")
    if codec_file(codec) is None:
        missing.append(f"no codec (one .nemo file) at {codec}: run `gepard download`, or set gepard.codec")
    return missing


def make_gepard(settings: Settings) -> Engine:
    """The engine, not yet loaded. Raises SettingsError naming all that is missing."""
    packages = missing_packages()
    missing = [*([packages] if packages else []), *missing_weights(settings)]
    codec = codec_file(settings.gepard_codec_path())
    if missing or codec is None:
        raise SettingsError(f"worker.engine gepard: {'; '.join(missing)}")
    from workers.engines.gepard import GepardEngine, GepardOptions  # noqa: PLC0415 - needs PyTorch

    options = settings.gepard
    return GepardEngine(
        GepardOptions(
            checkpoint=settings.gepard_checkpoint_path(),
            codec=codec,
            cache=settings.data_path() / "gepard",
            starter_clips=settings.gepard_starter_clips_path(),
            device=None if options.device == "auto" else options.device,
            dtype=options.dtype,
            rope_freq_dtype=options.rope_freq_dtype,
            rows=options.rows,
            capacity=settings.worker.capacity,
            num_threads=settings.worker.threads,
        )
    )
