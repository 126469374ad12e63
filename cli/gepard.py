"""The engine `gepard` from the settings, or what is missing for it."""

import os
from importlib.util import find_spec
from pathlib import Path

from shared.errors import SettingsError
from shared.settings import Settings
from workers.engines.base import Engine
from workers.gepard.config import CONFIG_FILE

EXTRA_HINT = "pip install 'gepard-gateway[gepard]' (in this repository: make setup-gepard)"
_PACKAGES = ("torch", "tokenizers")
_GPU_DEVICE = Path("/dev/nvidiactl")
"""There where the driver of an NVIDIA GPU is; asking PyTorch would take seconds, and memory of the GPU."""
_MAX_WORKERS = 4


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


def require_gepard(settings: Settings) -> Path:
    """The codec's file, when all is there. Raises SettingsError naming all that is missing."""
    packages = missing_packages()
    missing = [*([packages] if packages else []), *missing_weights(settings)]
    if settings.gepard.backend == "vllm" and find_spec("vllm") is None:
        missing.append("gepard.backend vllm is not installed: pip install 'gepard-gateway[gepard,vllm]'")
    codec = codec_file(settings.gepard_codec_path())
    if missing or codec is None:
        raise SettingsError(f"worker.engine gepard: {'; '.join(missing)}")
    return codec


def make_gepard(settings: Settings, host: Path) -> Engine:
    """The engine over the host at that socket; it needs no PyTorch. Raises SettingsError as `require_gepard`."""
    require_gepard(settings)
    from workers.engines.gepard import GepardEngine  # noqa: PLC0415 - needs the tokenizers

    return GepardEngine(host=host, checkpoint=settings.gepard_checkpoint_path())


def num_workers(settings: Settings) -> int:
    """Worker processes for one host: a GPU makes more sound than one of them encodes."""
    if settings.gepard.workers is not None:
        return settings.gepard.workers
    device = settings.gepard.device
    has_gpu = device.startswith("cuda") or (device == "auto" and _GPU_DEVICE.exists())
    # The cores, and half of them for the host and the gateway.
    return max(1, min(_MAX_WORKERS, (os.cpu_count() or 1) // 2)) if has_gpu else 1
