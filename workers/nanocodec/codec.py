"""What a streaming decoder offers to whoever has frames to turn into sound.

Two implementations: `StreamingDecoder` (streaming.py), plain PyTorch on any device, decides what is right;
the one of fused kernels (fused/) is for NVIDIA GPUs. A third party needs no more than this.
"""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class Codec(Protocol):
    """Slots for many streams, each decoded exactly as if it were alone.

    One thread steps, joins and leaves. Device work is queued on the current CUDA stream, in order; nothing here
    waits for the device but the checks of `step` where its codes lie on one.
    """

    num_slots: int

    @property
    def idle_slot(self) -> int:
        """A slot that no stream gets; any entry of a batch may name it, several times."""
        ...

    @property
    def num_free_slots(self) -> int: ...

    def join(self) -> int:
        """Begin a stream and return its slot, with no past. Raises NoFreeSlot."""
        ...

    def leave(self, slot: int) -> None:
        """End the stream of `slot`, finished or not. Raises ValueError if there is none."""
        ...

    def reset(self, slot: int) -> None:
        """Put a slot back to the start of a stream."""
        ...

    def step(self, codes: Tensor, slots: Sequence[int]) -> Tensor:
        """The next n frames of some streams: codes [B, 32, n] to samples [B, 1024 n], float32 in [-1, 1].

        Checked: raises ValueError for codes out of range, a wrong shape, and slots that repeat or carry no
        stream; the streams are then as before. The result lies on the decoder's device and is the caller's.
        """
        ...

    def decode_rows(self, frames: Tensor, rows: Sequence[Sequence[int]], slots: Sequence[int]) -> Tensor:
        """`step` for frames that lie on the device already, without checks: the path of a serving loop.

        frames: store of codes [R, 32], uint8, contiguous, on the decoder's device.
        rows: for each stream the rows of its next n frames in order, all streams the same n >= 1.
        slots: one for each stream, without repeats but for `idle_slot`.

        Codes out of range spoil their own stream only; rows and slots out of range are errors of the device.
        Returns samples [B, 1024 n], float32, on the device, **valid until the next call of `step` or
        `decode_rows`**: queue the copy to where they are needed before that call, on the same CUDA stream.
        """
        ...

    def warm_up(self) -> None:
        """Do what would make the first steps slow: compile kernels, capture graphs. Needs no stream, spoils none."""
        ...
