"""The tiny checkpoint and codec, and voices for them. Importing this needs no PyTorch; using it does."""

from pathlib import Path
from typing import Any

import numpy as np

from shared.clip import Clip
from workers.audio.clip_file import write_clip

DATA = Path(__file__).parents[1] / "data"
CHECKPOINT = DATA / "gepard" / "tiny"
CODEC = DATA / "nanocodec" / "tiny.nemo"

VOICES = ("alloy", "rowan", "linnet")
"""Starter voices of the tests' folder: one named like an OpenAI voice, two like embedded presets."""


def clip_of(pitch_hz: float, *, seconds: float = 1.0, rate_hz: int = 24000) -> Clip:
    """A buzz of that pitch."""
    time_s = np.arange(round(seconds * rate_hz)) / rate_hz
    harmonics = [np.sin(2 * np.pi * pitch_hz * number * time_s) / number for number in range(1, 20)]
    return Clip(samples=(0.2 * np.sum(harmonics, axis=0)).astype(np.float32), rate_hz=rate_hz)


def write_starters(folder: Path) -> Path:
    """A folder with a clip for each of VOICES."""
    folder.mkdir(parents=True)
    for number, name in enumerate(VOICES):
        write_clip(folder / f"{name}.wav", clip_of(100 + 40 * number))
    return folder


def tiny_engine(folder: Path, **options: Any) -> Any:
    """The engine and a host with the tiny model, its files and clips in `folder`; not started."""
    from tests.support.hosted import HostedEngine  # noqa: PLC0415  # needs the tokenizers

    return HostedEngine(folder, **options)
