"""Where the values of a fused step lie. Plain Python; all sizes and offsets in elements.

One allocation, the arena, holds everything in the precision of the decoder, so that a kernel reaches it from one
base with 32-bit offsets:

    states   one row for each slot and one for the idle slot: the pasts of all layers
    ends     one row for each entry of a batch: what the step leaves for the states, moved there by its last kernel
    buffers  rows [entry, time, channels] of the present step; used again by every stage
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from workers.nanocodec.config import CODES_PER_FRAME, SAMPLES_PER_FRAME, HifiGanConfig

NUM_BRANCHES: Final = 3
FRAMES_PER_STEP: Final = (1, 2, 4, 8, 16)
MAX_STEP_FRAMES: Final = 1024  # of all entries of a batch together: bounds ends and buffers
WIDTH_UNIT: Final = 32  # channels are padded to a multiple
STATE_ROWS: Final = 64  # the longest past that the state kernel moves at once

_MAX_ARENA = 2**31 - 1


class UnsupportedCodec(ValueError):
    """The archive's decoder is built in a way that the fused kernels do not know; the plain decoder does."""


@dataclass(frozen=True, slots=True)
class Past:
    """The last `reach` rows of one layer's input, at `offset` in a slot's row; [reach, width].

    rows_per_frame: how many new ones a frame brings.
    """

    offset: int
    reach: int
    width: int
    rows_per_frame: int

    @property
    def size(self) -> int:
        return self.reach * self.width


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One upsampler and the blocks behind it; `blocks[block][branch]`, branches by falling kernel size."""

    index: int
    channels: int
    width: int
    rate: int
    rows_per_frame: int  # after upsampling
    upsampler: Past
    dilated: tuple[tuple[Past, ...], ...]  # [block][branch]
    skips: tuple[tuple[Past, ...], ...]  # [block][branch]


@dataclass(frozen=True, slots=True)
class Plan:
    """`branches[i]` is the archive's index of branch i here, `kernels[i]` its kernel size."""

    branches: tuple[int, ...]
    kernels: tuple[int, ...]
    dilations: tuple[int, ...]
    channels: int  # after the first convolution
    in_kernel: int
    out_kernel: int
    codes: Past
    stages: tuple[StagePlan, ...]
    post: Past
    state_size: int  # of one slot
    short: tuple[Past, ...]  # longer than what one frame brings, and first in the row
    buffer_size: int  # of one buffer, for one frame

    @property
    def short_size(self) -> int:
        return sum(past.size for past in self.short)


def make_plan(config: HifiGanConfig) -> Plan:
    """Raises UnsupportedCodec."""
    if len(config.residual_kernels) != NUM_BRANCHES:
        raise UnsupportedCodec(f"{len(config.residual_kernels)} branches, fused are {NUM_BRANCHES}")
    branches = sorted(range(NUM_BRANCHES), key=lambda branch: -config.residual_kernels[branch])
    kernels = tuple(config.residual_kernels[branch] for branch in branches)

    pasts = list(_pasts(config, kernels))
    if max(past.reach for past in pasts) > STATE_ROWS:
        raise UnsupportedCodec(f"a past of more than {STATE_ROWS} rows")
    order = sorted(range(len(pasts)), key=lambda i: not _is_short(pasts[i]))
    end = 0
    for i in order:
        past = pasts[i]
        pasts[i] = Past(end, past.reach, past.width, past.rows_per_frame)
        end += past.size
    supply = iter(pasts)

    codes = next(supply)
    stages = []
    buffer_size = codes.rows_per_frame * padded(config.base_channels)
    channels, rows = config.base_channels, 1
    for index, rate in enumerate(config.rates):
        channels, rows = channels // 2, rows * rate
        buffer_size = max(buffer_size, rows * padded(channels))
        upsampler = next(supply)
        dilated, skips = [], []
        for _ in config.dilations:
            dilated.append(tuple(next(supply) for _ in kernels))
            skips.append(tuple(next(supply) for _ in kernels))
        stages.append(StagePlan(index, channels, padded(channels), rate, rows, upsampler, tuple(dilated), tuple(skips)))
    post = next(supply)
    if rows != SAMPLES_PER_FRAME:
        raise UnsupportedCodec(f"{rows} samples a frame")
    return Plan(
        branches=tuple(branches),
        kernels=kernels,
        dilations=config.dilations,
        channels=config.base_channels,
        in_kernel=config.in_kernel,
        out_kernel=config.out_kernel,
        codes=codes,
        stages=tuple(stages),
        post=post,
        state_size=end,
        short=tuple(pasts[i] for i in order if _is_short(pasts[i])),
        buffer_size=buffer_size,
    )


def _pasts(config: HifiGanConfig, kernels: tuple[int, ...]) -> Iterator[Past]:
    """In the order of the layers; the offsets come later."""
    yield Past(0, config.in_kernel - 1, padded(CODES_PER_FRAME), 1)
    channels, rows = config.base_channels, 1
    for rate in config.rates:
        yield Past(0, 1, padded(channels), rows)
        channels, rows = channels // 2, rows * rate
        for dilation in config.dilations:
            yield from (Past(0, (kernel - 1) * dilation, padded(channels), rows) for kernel in kernels)
            yield from (Past(0, kernel - 1, padded(channels), rows) for kernel in kernels)
    yield Past(0, config.out_kernel - 1, padded(channels), rows)


def _is_short(past: Past) -> bool:
    return past.reach > past.rows_per_frame


def padded(channels: int) -> int:
    """Channels as they are stored; the kernels read 16 bytes at once and multiply in blocks."""
    return -(-channels // WIDTH_UNIT) * WIDTH_UNIT


@dataclass(frozen=True, slots=True)
class Arena:
    """Offsets of the parts. Buffers: `upsampled`, `stage_input`, and for each branch `act`, `inner`, `sum`."""

    num_slots: int
    max_batch: int
    max_frames: int
    ends: int
    buffers: int
    size: int
    buffer_size: int

    @property
    def stage_input(self) -> int:
        return self._buffer(0)

    @property
    def upsampled(self) -> int:
        return self._buffer(1)

    def act(self, branch: int) -> int:
        """The branch's values after activation: what its next dilated convolution reads."""
        return self._buffer(2 + branch)

    def inner(self, branch: int) -> int:
        """Between the two convolutions of a block."""
        return self._buffer(2 + NUM_BRANCHES + branch)

    def sum(self, branch: int) -> int:
        """The branch's values before activation: what its next block adds to."""
        return self._buffer(2 + 2 * NUM_BRANCHES + branch)

    def _buffer(self, index: int) -> int:
        return self.buffers + index * self.buffer_size * self.max_frames


def make_arena(plan: Plan, num_slots: int) -> Arena:
    """Raises ValueError for more slots than 32-bit offsets reach."""
    max_frames = min(MAX_STEP_FRAMES, num_slots * max(FRAMES_PER_STEP))
    max_batch = min(num_slots, max_frames)
    ends = (num_slots + 1) * plan.state_size
    buffers = ends + max_batch * plan.state_size
    # A block of channels may reach past the last row's end; its weights are zero there.
    slack = 4 * WIDTH_UNIT
    size = buffers + (2 + 3 * NUM_BRANCHES) * plan.buffer_size * max_frames + slack
    if size > _MAX_ARENA:
        raise ValueError(f"num_slots is too large for the fused decoder: {num_slots}")
    return Arena(num_slots, max_batch, max_frames, ends, buffers, size, plan.buffer_size)
