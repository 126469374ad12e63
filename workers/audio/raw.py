"""Formats that need no codec of FFmpeg: each sample becomes bytes on its own."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from workers.audio.blocks import BlockBuffer
from workers.audio.samples import to_int16
from workers.engines.base import Samples


def pack_pcm(samples: NDArray[np.int16]) -> bytes:
    """Signed 16-bit little-endian samples."""
    return samples.astype("<i2", copy=False).tobytes()


class RawEncoder:
    """Blocks of `block_samples`, each packed by `pack`, after an optional header."""

    def __init__(
        self, block_samples: int, pack: Callable[[NDArray[np.int16]], bytes] = pack_pcm, *, header: bytes = b""
    ) -> None:
        self._block_samples = block_samples
        self._blocks = BlockBuffer(block_samples)
        self._pack = pack
        self._pending_header = [header] if header else []

    def encode(self, samples: Samples) -> list[bytes]:
        whole = self._blocks.take(samples)
        if not len(whole):
            return self._take_header()
        # Packed in one go: a block alone costs more than its 20 ms are worth.
        data = self._pack(to_int16(whole))
        size = len(data) * self._block_samples // len(whole)
        return [*self._take_header(), *(data[start : start + size] for start in range(0, len(data), size))]

    def close(self) -> list[bytes]:
        rest = self._blocks.drain()
        return [*self._take_header(), *([self._pack(to_int16(rest))] if len(rest) else [])]

    def _take_header(self) -> list[bytes]:
        header, self._pending_header = self._pending_header, []
        return header
