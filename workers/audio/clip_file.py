"""Clips in files of the operator: read them, write them. Not for uploads, which are not trusted."""

import wave
from collections.abc import Iterable
from pathlib import Path

import av
import numpy as np

from shared.clip import Clip
from workers.engines.base import Samples

_FULL_SCALE = 32767


def read_clip(path: Path, *, max_s: float) -> Clip:
    """The first `max_s` seconds of a sound file at its own rate, channels averaged.

    Raises ValueError when it holds no sound that can be decoded, OSError when it cannot be opened.
    """
    try:
        with av.open(str(path), mode="r") as container:
            if not container.streams.audio:
                raise ValueError(f"{path}: no sound in it")
            stream = container.streams.audio[0]
            rate_hz = stream.codec_context.sample_rate
            limit = int(max_s * rate_hz)
            samples = _first_samples(container.decode(stream), limit)
    except av.FFmpegError as error:
        if isinstance(error, OSError):
            raise
        raise ValueError(f"{path}: cannot be decoded") from error
    if not len(samples):
        raise ValueError(f"{path}: no sound in it")
    return Clip(samples=samples, rate_hz=rate_hz)


def write_clip(path: Path, clip: Clip) -> None:
    """Write a 16-bit wav; it appears under its name only when it is whole."""
    partial = path.with_name(f"{path.name}.part")
    with wave.open(str(partial), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(clip.rate_hz)
        file.writeframes(np.round(np.clip(clip.samples, -1, 1) * _FULL_SCALE).astype("<i2").tobytes())
    partial.replace(path)


def _first_samples(frames: Iterable[av.AudioFrame], limit: int) -> Samples:
    """At most `limit` samples of the frames, mono [n] float32."""
    to_planes = av.AudioResampler(format="fltp")
    planes: list[Samples] = []
    num_samples = 0
    for frame in frames:
        for converted in to_planes.resample(frame):
            planes.append(converted.to_ndarray().mean(axis=0, dtype=np.float32))
            num_samples += len(planes[-1])
        if num_samples >= limit:
            break
    return np.concatenate(planes)[:limit] if planes else np.zeros(0, np.float32)
