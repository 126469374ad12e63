"""Cut a sample stream into blocks of one size, wherever the calls cut it."""

import numpy as np

from workers.engines.base import Samples


class BlockBuffer:
    """A FIFO that gives back whole blocks of `block_samples`; holds less than one block between calls."""

    def __init__(self, block_samples: int) -> None:
        self._block_samples = block_samples
        self._rest: Samples = np.zeros(0, np.float32)

    def take(self, samples: Samples) -> Samples:
        """Take samples [n]; return all blocks that are complete, in one piece [block_samples m]."""
        pending = np.concatenate((self._rest, samples)) if len(self._rest) else samples
        num_whole = len(pending) // self._block_samples * self._block_samples
        # A copy: the caller may reuse its array, and a view would keep a long chunk alive.
        self._rest = pending[num_whole:].copy()
        return pending[:num_whole]

    def drain(self) -> Samples:
        """Return what is left, [0 to block_samples - 1]."""
        rest, self._rest = self._rest, np.zeros(0, np.float32)
        return rest
