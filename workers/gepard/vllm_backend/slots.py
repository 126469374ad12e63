"""What the kernels must know of each running request: one row on the device, written once a request.

A request has a slot from its start to its end; a batch names its rows' slots, and whatever differs between
requests is read there. So a step copies nothing to the device for any of them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workers.gepard.sampling import SamplingParams

# Columns of a row; the first four are float32 by their bits. The kernels name them again, since Triton reads
# no globals but constants of its own.
_COLUMNS = 16
_NO_LIMIT = 2**31 - 1
NONE = -1
"""No slot, no voice: a batch row with this slot is padding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotParams:
    """One request as the kernels see it.

    seed: any integer, taken modulo 2^64. prompt_length: positions before the first frame, those of the voice
    included. known_frames: frames the request comes with; their positions draw nothing. voice_row: its row in
    the voice table, None for no voice. partner: the slot of the other branch of a guided pair, of which one
    is_unconditional: it draws nothing and gets what the other draws. origin: the row of the frame store where
    frame 0 is; the frames go on from there to the end of the slot's lane, and then from its start.
    """

    sampling: SamplingParams
    seed: int
    prompt_length: int
    known_frames: int = 0
    voice_row: int | None = None
    partner: int | None = None
    is_unconditional: bool = False
    origin: int = 0

    def packed(self) -> Tensor:
        """The row of the table, [16] int32 on the CPU."""
        sampling = self.sampling
        # The sampler compares in float32. Rounded down, the threshold has the same float32 values above it.
        threshold = torch.tensor(sampling.stop_threshold, dtype=torch.float32)
        if threshold.item() > sampling.stop_threshold:
            threshold = threshold.nextafter(torch.tensor(-torch.inf))
        reals = (sampling.temperature, sampling.repetition_penalty, sampling.cfg_scale, threshold.item())
        guided = _NO_LIMIT if sampling.guided_frames is None else sampling.guided_frames
        whole = (
            min(sampling.top_k or _NO_LIMIT, _NO_LIMIT),
            min(sampling.repetition_window or _NO_LIMIT, _NO_LIMIT),
            min(guided, _NO_LIMIT),
            sampling.frame_limit,
            self.prompt_length,
            self.known_frames,
            NONE if self.partner is None else self.partner,
            int(self.is_unconditional),
            NONE if self.voice_row is None else self.voice_row,
            _signed(self.seed),
            _signed(self.seed >> 32),
            self.origin,
        )
        bits = torch.tensor(reals, dtype=torch.float32).view(torch.int32)
        return torch.cat((bits, torch.tensor(whole, dtype=torch.int32)))


def _signed(word: int) -> int:
    """The low 32 bits as an int32 has them."""
    return (word + 2**31) % 2**32 - 2**31


class SlotTable:
    """rows: [num_slots, 16] int32 on the device, at a fixed address."""

    def __init__(self, num_slots: int, device: torch.device) -> None:
        self.rows = torch.zeros((num_slots, _COLUMNS), dtype=torch.int32, device=device)

    def write(self, slot: int, params: SlotParams) -> None:
        """Set a slot, as seen by work queued afterwards; does not wait for the device."""
        self.rows[slot].copy_(params.packed(), non_blocking=True)
