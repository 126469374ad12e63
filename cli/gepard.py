"""The engine `gepard` from the settings, or what is missing for it."""

from importlib.util import find_spec

from shared.errors import SettingsError
from shared.settings import Settings
from workers.engines.base import Engine

PACKAGES = ("torch", "tokenizers")
"""What the extra `gepard` installs and the engine imports."""


def missing_for_gepard(settings: Settings) -> list[str]:
    """What `worker.engine: gepard` lacks, each with what to do about it."""
    missing = []
    packages = [name for name in PACKAGES if find_spec(name) is None]
    if packages:
        missing.append(
            f"{' and '.join(packages)} not installed: pip install 'gepard-gateway[gepard]' (or make setup-gepard)"
        )
    checkpoint, codec = settings.gepard_checkpoint_path(), settings.gepard_codec_path()
    if not (checkpoint / "gepard_config.json").exists():
        missing.append(f"no checkpoint in {checkpoint}: run `gepard download`, or set gepard.checkpoint")
    if not codec.exists():
        missing.append(f"no codec at {codec}: run `gepard download`, or set gepard.codec")
    return missing


def make_gepard(settings: Settings) -> Engine:
    """The engine, not yet loaded. Raises SettingsError naming all that is missing."""
    missing = missing_for_gepard(settings)
    if missing:
        raise SettingsError(f"worker.engine gepard: {'; '.join(missing)}")
    from workers.engines.gepard import GepardEngine, GepardOptions  # noqa: PLC0415 - needs PyTorch

    options = settings.gepard
    return GepardEngine(
        GepardOptions(
            checkpoint=settings.gepard_checkpoint_path(),
            codec=settings.gepard_codec_path(),
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
