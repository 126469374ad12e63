"""A decoded reference clip: what voices take in, Redis carries and engines make a voice of."""

import hashlib
import struct
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

MAX_CLIP_BYTES = 2 * 1024 * 1024
"""Bound of `Clip.to_bytes`: 15 s at up to 34 kHz."""

_HEADER = struct.Struct("<I")
_SAMPLE_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clip:
    """Mono samples [n] float32, n >= 1, finite, nominally in -1..1, at `rate_hz`; already cut to length."""

    samples: NDArray[np.float32]
    rate_hz: int

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.rate_hz

    @property
    def sha256(self) -> str:
        """The clip's name everywhere: SHA-256 of `to_bytes`, 64 hex digits in lower case."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """The rate as an unsigned 32-bit integer, then the samples as float32, all little-endian."""
        return _HEADER.pack(self.rate_hz) + self.samples.astype("<f4").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote. Raises ValueError for anything else."""
        length = len(data) - _HEADER.size
        if not 0 < length <= MAX_CLIP_BYTES - _HEADER.size or length % _SAMPLE_BYTES:
            raise ValueError(f"a clip has a header and whole samples within {MAX_CLIP_BYTES} bytes, got {len(data)}")
        (rate_hz,) = _HEADER.unpack_from(data)
        samples = np.frombuffer(data, "<f4", offset=_HEADER.size).astype(np.float32)
        if rate_hz == 0 or not np.isfinite(samples).all():
            raise ValueError("a clip has a rate and finite samples")
        return cls(samples=samples, rate_hz=rate_hz)
