"""Many streams decoded side by side, each exactly as if it were decoded alone and at once.

A stream lives in a slot: one row of a store that holds, for each of the decoder's layers, the last inputs
which that layer will need again. A step gathers the rows of the streams it advances, runs the decoder, and
scatters the new rows back. Streams may join, leave, and change their chunk size at any step. In float32 the
result differs from decoding at once in the last bits, since the order of a sum depends on the chunk size.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from workers.nanocodec.config import CODES_PER_FRAME
from workers.nanocodec.decoder import CodecDecoder, PastShape
from workers.nanocodec.slots import SlotTable


class StreamingDecoder:
    """Slots for `num_slots` streams over one decoder; 731 kB a slot in float32 for the released codec.

    The store is allocated once, on the decoder's device and in its precision, and keeps its address.
    Not thread-safe: one thread steps, joins and leaves.
    """

    def __init__(self, decoder: CodecDecoder, num_slots: int) -> None:
        self._slots = SlotTable(num_slots)
        self.num_slots = num_slots
        self._decoder = decoder
        self._fields = _fields(decoder.pasts)
        row_size = self._fields[-1][1]
        # One row more than there are slots: `idle_slot` takes what padding entries of a batch compute.
        self._store = torch.zeros(num_slots + 1, row_size, device=decoder.device, dtype=decoder.dtype)

    @property
    def idle_slot(self) -> int:
        """A slot that no stream gets, for padding `advance` to a fixed batch; it may come several times."""
        return self.num_slots

    @property
    def num_free_slots(self) -> int:
        return self._slots.num_free

    def join(self) -> int:
        """Begin a stream and return its slot. Raises NoFreeSlot."""
        slot = self._slots.take()
        self.reset(slot)
        return slot

    def leave(self, slot: int) -> None:
        """End the stream of `slot`, finished or not. A decoder has nothing to flush. Raises ValueError."""
        self._slots.give_back(slot)

    def step(self, codes: Tensor, slots: Sequence[int]) -> Tensor:
        """The next n frames of some streams: codes [B, 32, n] to samples [B, 1024 n], float32 in [-1, 1].

        Row b belongs to the stream in slots[b]. Codes on the CPU are checked without waiting for a device.
        Raises ValueError for codes out of range, a wrong shape, and slots that repeat or carry no stream; the
        streams are then as before.
        """
        self._slots.check_step(codes, slots)
        device = self._decoder.device
        return self.advance(codes.to(device), torch.tensor(slots, device=device))

    def decode_rows(self, frames: Tensor, rows: Sequence[Sequence[int]], slots: Sequence[int]) -> Tensor:
        """`Codec.decode_rows`; this implementation's result stays valid."""
        device = self._decoder.device
        index = torch.tensor(rows, device=device)
        codes = frames[index].to(torch.int64).transpose(1, 2)
        return self.advance(codes, torch.tensor(slots, device=device))

    def warm_up(self) -> None:
        """Run one frame through the idle slot."""
        codes = torch.zeros(1, CODES_PER_FRAME, 1, dtype=torch.int64, device=self._decoder.device)
        self.advance(codes, torch.tensor([self.idle_slot], device=self._decoder.device))

    @torch.inference_mode()
    def advance(self, codes: Tensor, slots: Tensor) -> Tensor:
        """`step` without checks, for a caller that captures it in a CUDA graph: nothing waits for the device.

        Codes [B, 32, n] and slots [B] (int64) lie on the decoder's device. Codes out of range spoil their own
        stream only; slots out of range are an error of the device.
        """
        before = self._store.index_select(0, slots)
        after = torch.empty_like(before)
        samples: Tensor = self._decoder(codes, _Rows(self._decoder.pasts, self._fields, before, after))
        self._store.index_copy_(0, slots, after)
        return samples

    @torch.inference_mode()
    def reset(self, slot: int) -> None:
        """Put the slot back to the start of a stream; for a caller that keeps its own list of slots."""
        self._store[slot].zero_()


class _Rows:
    """History of one step: reads the rows as they were, writes what the next step will need."""

    def __init__(
        self, pasts: tuple[PastShape, ...], fields: list[tuple[int, int]], before: Tensor, after: Tensor
    ) -> None:
        self._pasts = pasts
        self._fields = fields
        self._before = before
        self._after = after

    def extend(self, layer: int, x: Tensor) -> Tensor:
        extended = torch.cat((self._view(self._before, layer), x), dim=-1)
        # A chunk may be shorter than the past it follows: then part of the old past stays.
        length = self._pasts[layer].length
        self._view(self._after, layer).copy_(extended[..., extended.shape[-1] - length :])
        return extended

    def _view(self, rows: Tensor, layer: int) -> Tensor:
        """[B, channels, length] of the layer within rows [B, row size]."""
        start, end = self._fields[layer]
        past = self._pasts[layer]
        return rows[:, start:end].view(-1, past.channels, past.length)


def _fields(pasts: tuple[PastShape, ...]) -> list[tuple[int, int]]:
    """Where each layer's values begin and end in a row."""
    fields: list[tuple[int, int]] = []
    end = 0
    for past in pasts:
        start, end = end, end + past.channels * past.length
        fields.append((start, end))
    return fields
