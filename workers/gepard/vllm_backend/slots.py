"""What the kernels must know of each running request: one row on the device, written once a request.

A request has a slot from its start to its end; a batch names its rows' slots, and whatever differs between
requests is read there. So a step copies nothing to the device for any of them.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from workers.gepard.sampling import SamplingParams

# Columns of a row; the first four are float32 by their bits. The kernels name them again, since Triton reads
# no globals but constants of its own.
_COLUMNS = 16
_NO_LIMIT = 2**31 - 1
NONE = -1
"""No slot: a batch row with this slot is padding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotParams:
    """One request as the kernels see it.

    seed: any integer, taken modulo 2^64. prompt_length: positions before the first frame, those of the voice
    included. known_frames: frames the request comes with; their positions draw nothing. partner: the
    slot of the other branch of a guided pair, of which one is_unconditional: it draws nothing and gets what the
    other draws. origin: the row of the frame store where frame 0 is; the frames go on from there to the end of
    its lane, and then from the lane's start.
    """

    sampling: SamplingParams
    seed: int
    prompt_length: int
    known_frames: int = 0
    partner: int | None = None
    is_unconditional: bool = False
    origin: int = 0

    def packed(self) -> NDArray[np.int32]:
        """The row of the table, [16]."""
        sampling = self.sampling
        # The sampler compares in float32. Rounded down, the threshold has the same float32 values above it.
        threshold = np.float32(sampling.stop_threshold)
        if float(threshold) > sampling.stop_threshold:
            threshold = np.nextafter(threshold, np.float32(-np.inf))
        reals = (sampling.temperature, sampling.repetition_penalty, sampling.cfg_scale, threshold)
        guided = _NO_LIMIT if sampling.guided_frames is None else sampling.guided_frames
        row = np.zeros(_COLUMNS, dtype=np.int32)
        row[:4] = np.array(reals, dtype=np.float32).view(np.int32)
        row[4:] = (
            min(sampling.top_k or _NO_LIMIT, _NO_LIMIT),
            min(sampling.repetition_window or _NO_LIMIT, _NO_LIMIT),
            min(guided, _NO_LIMIT),
            sampling.frame_limit,
            self.prompt_length,
            self.known_frames,
            NONE if self.partner is None else self.partner,
            int(self.is_unconditional),
            _signed(self.seed),
            _signed(self.seed >> 32),
            self.origin,
            0,
        )
        return row


def _signed(word: int) -> int:
    """The low 32 bits as an int32 has them."""
    return (word + 2**31) % 2**32 - 2**31


class SlotTable:
    """rows: [num_slots, 16] int32 on the device, at a fixed address."""

    def __init__(self, num_slots: int, device: torch.device) -> None:
        self.rows = torch.zeros((num_slots, _COLUMNS), dtype=torch.int32, device=device)
        self._staged: dict[int, NDArray[np.int32]] = {}

    def write(self, slot: int, params: SlotParams) -> None:
        """Set a slot with the next `apply`."""
        self._staged[slot] = params.packed()

    def apply(self) -> None:
        """Set what was written, as seen by work queued afterwards, in one copy; does not wait for the device."""
        if not self._staged:
            return
        slots = np.fromiter(self._staged, dtype=np.int32, count=len(self._staged))
        packed = np.concatenate((slots[:, None], np.stack(list(self._staged.values()))), axis=1)
        self._staged.clear()
        staged = torch.from_numpy(packed)
        if self.rows.is_cuda:
            staged = staged.pin_memory().to(self.rows.device, non_blocking=True)
        self.rows.index_copy_(0, staged[:, 0].long(), staged[:, 1:])
