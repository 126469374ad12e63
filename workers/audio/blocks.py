"""Cut a sample stream into blocks of one size, wherever the calls cut it."""

from collections.abc import Iterator

import numpy as np

from workers.engines.base import Samples


class BlockBuffer:
    """A FIFO that gives back whole blocks of `block_samples`; holds less than one block between calls."""

    def __init__(self, block_samples: int) -> None:
        self._block_samples = block_samples
        self._rest: Samples = np.zeros(0, np.float32)

    def push(self, samples: Samples) -> Iterator[Samples]:
        """Take samples [n]; yield every block [block_samples] that is complete."""
        pending = np.concatenate((self._rest, samples)) if len(self._rest) else samples
        num_whole = len(pending) // self._block_samples * self._block_samples
        # A copy: the caller may reuse its array, and a view would keep a long chunk alive.
        self._rest = pending[num_whole:].copy()
        for start in range(0, num_whole, self._block_samples):
            yield pending[start : start + self._block_samples]

    def drain(self) -> Samples:
        """Return what is left, [0 to block_samples - 1]."""
        rest, self._rest = self._rest, np.zeros(0, np.float32)
        return rest
