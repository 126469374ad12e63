"""The launches of a step, in order: the first convolution, six or more and an upsampler a stage, samples, state.

All arguments are fixed for a number of entries and frames; what differs from step to step (slots, frames) the
kernels read from `control`. So a list of launches can be captured once and replayed.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from workers.nanocodec.config import SAMPLES_PER_FRAME
from workers.nanocodec.fused import table as t
from workers.nanocodec.fused.conv_kernel import conv_kernel
from workers.nanocodec.fused.edge_kernel import post_kernel, pre_kernel, upsample_kernel
from workers.nanocodec.fused.plan import NUM_BRANCHES, STATE_ROWS, WIDTH_UNIT, Arena, Past, Plan, StagePlan, padded
from workers.nanocodec.fused.state_kernel import state_kernel
from workers.nanocodec.fused.tiles import Tiles
from workers.nanocodec.fused.weights import Activation, ConvWeights, PackedWeights, StageWeights, columns_of, depth_of

# In front of the slots in `control`: the address of the frames, and what makes the slots begin at 16 bytes.
CONTROL_HEADER = 4

_STATE_BLOCK = 4096
_PRE_ROWS = 32


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel with all it needs; `stage` names it for measurements."""

    stage: str
    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Tensor | int, ...]
    constants: Mapping[str, int | float | bool]
    options: Mapping[str, int] = field(default_factory=dict)

    def __call__(self) -> None:
        self.kernel[self.grid](*self.arguments, **self.constants, **self.options)

    def compile(self) -> None:
        """Compile the kernel, or take it from Triton's cache on disk; launches nothing."""
        self.kernel.warmup(*self.arguments, grid=self.grid, **self.constants, **self.options)

    @property
    def program(self) -> Hashable:
        """What decides which program is compiled; launches that agree in it share one."""
        return self.kernel, *self.constants.items(), *self.options.items()


@dataclass(frozen=True, slots=True)
class Memory:
    """The tensors of a decoder. `control` int32: header, slots [B], rows of frames [B, n]; `clamps` int32 [1]."""

    arena: Tensor
    control: Tensor
    clamps: Tensor
    samples: Tensor


class StepLaunches:
    """Makes the lists of launches of one decoder."""

    def __init__(
        self, plan: Plan, arena: Arena, weights: PackedWeights, memory: Memory, *, tiles: Tiles, is_native: bool
    ) -> None:
        """is_native: compiled for a GPU, which has a fast sine good enough for half precision."""
        self._plan = plan
        self._arena = arena
        self._weights = weights
        self._memory = memory
        self._tiles = tiles
        self._ends = arena.ends // WIDTH_UNIT
        self._slots = memory.control[CONTROL_HEADER:]
        self._constants = {
            "STATE_SIZE": plan.state_size,
            "LIMIT": torch.finfo(memory.arena.dtype).max,
            "FAST_SINE": is_native and memory.arena.dtype != torch.float32,
        }
        rows, self._firsts = self._table_rows()
        device = memory.arena.device
        self._table = torch.tensor(rows, dtype=torch.int32, device=device)
        self._shorts = torch.tensor(list(_pieces(plan.short)), dtype=torch.int32, device=device).reshape(-1, 4)

    def make(self, batch: int, frames: int) -> list[Launch]:
        """For `batch` entries of `frames` frames each, a power of two."""
        log_frames = frames.bit_length() - 1
        launches = [self._pre(batch, log_frames)]
        firsts = iter(self._firsts[1:])
        for stage in self._plan.stages:
            launches.append(self._upsample(stage, next(firsts), batch, log_frames))
            for block in range(len(self._plan.dilations)):
                is_last = block == len(self._plan.dilations) - 1
                launches.append(self._conv(stage, "dilated", next(firsts), batch, log_frames))
                launches.append(self._conv(stage, "last" if is_last else "skip", next(firsts), batch, log_frames))
        launches.append(self._post(next(firsts), batch, log_frames))
        launches.append(self._state(batch, log_frames))
        return launches

    # --- Table: where each launch reads and writes --------------------------------------------------------

    def _table_rows(self) -> tuple[list[list[int]], list[int]]:
        """All rows, and the first row of each launch in order."""
        rows: list[list[int]] = []
        firsts: list[int] = []
        for launch_rows in self._launch_rows():
            firsts.append(len(rows))
            rows.extend(launch_rows)
        return rows, firsts

    def _launch_rows(self) -> Iterator[list[list[int]]]:
        plan, weights, arena = self._plan, self._weights, self._arena
        yield [
            t.table_row(
                _conv(weights.pre)
                | _activation(weights.pre_activation)
                | _past(plan.codes)
                | _end(plan.stages[0].upsampler)
                | {
                    t.OUTPUT: arena.stage_input,
                    t.CODES_END: plan.codes.offset,
                    t.CODES_REACH: plan.codes.reach,
                }
            )
        ]
        for stage, packed in zip(plan.stages, weights.stages, strict=True):
            following = plan.stages[stage.index + 1].upsampler if stage is not plan.stages[-1] else plan.post
            yield from self._stage_rows(stage, packed, following)
        yield [t.table_row(_conv(weights.post) | _past(plan.post) | {t.INPUT: arena.stage_input})]

    def _stage_rows(self, stage: StagePlan, packed: StageWeights, following: Past) -> Iterator[list[list[int]]]:
        plan, arena = self._plan, self._arena
        branches = range(NUM_BRANCHES)
        yield [
            t.table_row(
                _conv(packed.upsampler)
                | _past(stage.upsampler)
                | _activation(packed.input_activations[0][branch])
                | _end(stage.dilated[0][branch])
                | {t.INPUT: arena.stage_input, t.RAW: arena.upsampled, t.OUTPUT: arena.act(branch)}
            )
            for branch in branches
        ]
        for block, dilation in enumerate(plan.dilations):
            yield [
                t.table_row(
                    _conv(packed.dilated[block][branch])
                    | _past(stage.dilated[block][branch])
                    | _activation(packed.skip_activations[block][branch])
                    | _end(stage.skips[block][branch])
                    | {
                        t.TAPS: plan.kernels[branch],
                        t.DILATION: dilation,
                        t.INPUT: arena.act(branch),
                        t.OUTPUT: arena.inner(branch),
                    }
                )
                for branch in branches
            ]
            earlier = [arena.upsampled if block == 0 else arena.sum(branch) for branch in branches]
            if block < len(plan.dilations) - 1:
                yield [
                    t.table_row(
                        _conv(packed.skips[block][branch])
                        | _past(stage.skips[block][branch])
                        | _activation(packed.input_activations[block + 1][branch])
                        | _end(stage.dilated[block + 1][branch])
                        | {
                            t.TAPS: plan.kernels[branch],
                            t.DILATION: 1,
                            t.INPUT: arena.inner(branch),
                            t.RESIDUAL: earlier[branch],
                            t.RAW: arena.sum(branch),
                            t.OUTPUT: arena.act(branch),
                        }
                    )
                    for branch in branches
                ]
            else:
                yield [
                    t.table_row(
                        _conv(packed.last)
                        | _past(stage.skips[block][branch])
                        | _activation(packed.output)
                        | _end(following)
                        | {
                            t.TAPS: sum(plan.kernels[: branch + 1]),
                            t.INPUT: arena.inner(branch),
                            t.RESIDUAL: earlier[branch],
                            t.OUTPUT: arena.stage_input,
                        }
                    )
                    for branch in branches
                ]

    # --- Launches -----------------------------------------------------------------------------------------

    def _pre(self, batch: int, log_frames: int) -> Launch:
        memory, plan = self._memory, self._plan
        width = padded(plan.channels)
        columns = columns_of(width)
        tile_columns = min(self._tiles.conv(batch << log_frames, width).columns, 64)
        num_rows = batch << log_frames
        return Launch(
            "pre",
            pre_kernel,
            (columns // tile_columns, -(-num_rows // _PRE_ROWS)),
            (
                memory.arena,
                self._weights.matrices,
                self._weights.vectors,
                self._table[self._firsts[0]],
                memory.control.view(torch.int64),
                self._slots,
                memory.clamps,
                num_rows,
                log_frames,
                batch,
                self._ends,
            ),
            {
                **self._constants,
                "WIDTH": width,
                "HALF": plan.channels // 2,
                "COLUMNS": columns,
                "TAPS": plan.in_kernel,
                "TILE_ROWS": _PRE_ROWS,
                "TILE_COLUMNS": tile_columns,
            },
        )

    def _upsample(self, stage: StagePlan, first: int, batch: int, log_frames: int) -> Launch:
        memory = self._memory
        log_rate = stage.rate.bit_length() - 1
        log_rows = stage.rows_per_frame.bit_length() - 1 - log_rate + log_frames
        num_rows = batch << log_rows
        tile_columns = min(64, 1 << (stage.width - 1).bit_length())
        tile_rows = max(1, self._tiles.edge_elements // tile_columns)
        return Launch(
            f"upsample {stage.channels}",
            upsample_kernel,
            (-(-stage.width // tile_columns), -(-num_rows // tile_rows), stage.rate),
            (
                memory.arena,
                self._weights.vectors,
                self._table[first],
                self._slots,
                memory.clamps,
                num_rows,
                log_rows,
                self._ends,
            ),
            {
                **self._constants,
                "IN_WIDTH": stage.upsampler.width,
                "WIDTH": stage.width,
                "HALF": stage.channels // 2,
                "COLUMNS": columns_of(stage.width),
                "LOG_RATE": log_rate,
                "BRANCHES": NUM_BRANCHES,
                "TILE_ROWS": tile_rows,
                "TILE_COLUMNS": tile_columns,
            },
        )

    def _conv(self, stage: StagePlan, kind: str, first: int, batch: int, log_frames: int) -> Launch:
        memory = self._memory
        tile = self._tiles.conv(batch << log_frames, stage.width)
        columns = columns_of(stage.width)
        log_rows = stage.rows_per_frame.bit_length() - 1 + log_frames
        num_rows = batch << log_rows
        return Launch(
            f"conv {stage.channels} {kind}",
            conv_kernel,
            (
                -(-stage.width // tile.columns),
                -(-num_rows // tile.rows),
                1 if kind == "last" else NUM_BRANCHES,
            ),
            (
                memory.arena,
                self._weights.matrices,
                self._weights.vectors,
                self._table[first],
                self._slots,
                memory.clamps,
                num_rows,
                log_rows,
                self._ends,
            ),
            {
                **self._constants,
                "WIDTH": stage.width,
                "HALF": stage.channels // 2,
                "COLUMNS": columns,
                "DEPTH": depth_of(stage.width),
                "RESIDUALS": kind != "dilated",
                "JOINED": kind == "last",
                "TILE_ROWS": tile.rows,
                "TILE_COLUMNS": tile.columns,
                "TILE_DEPTH": tile.depth,
                "STAGES": tile.stages,
            },
            {"num_warps": tile.warps},
        )

    def _post(self, first: int, batch: int, log_frames: int) -> Launch:
        memory, stage = self._memory, self._plan.stages[-1]
        log_rows = SAMPLES_PER_FRAME.bit_length() - 1 + log_frames
        num_rows = batch << log_rows
        tile_width = 1 << (stage.width - 1).bit_length()
        tile_rows = max(1, self._tiles.edge_elements // tile_width)
        return Launch(
            "post",
            post_kernel,
            (-(-num_rows // tile_rows),),
            (
                memory.arena,
                self._weights.vectors,
                self._table[first],
                self._slots,
                memory.samples,
                num_rows,
                log_rows,
            ),
            {
                "WIDTH": stage.width,
                "TAPS": self._plan.out_kernel,
                "STATE_SIZE": self._plan.state_size,
                "TILE_ROWS": tile_rows,
                "TILE_WIDTH": tile_width,
            },
        )

    def _state(self, batch: int, log_frames: int) -> Launch:
        plan = self._plan
        is_short = any(past.reach > past.rows_per_frame << log_frames for past in plan.short)
        num_short = len(self._shorts) if is_short else 0
        start = plan.short_size if is_short else 0
        return Launch(
            "state",
            state_kernel,
            (batch, num_short + -(-(plan.state_size - start) // _STATE_BLOCK)),
            (self._memory.arena, self._shorts, self._slots, num_short, start // WIDTH_UNIT, log_frames, self._ends),
            {
                "STATE_SIZE": plan.state_size,
                "BLOCK": _STATE_BLOCK,
                "ROWS": STATE_ROWS,
            },
        )


def _pieces(pasts: Sequence[Past]) -> Iterator[tuple[int, int, int, int]]:
    """Blocks of channels of the short pasts: offset, reach, width, rows a frame."""
    for past in pasts:
        for channel in range(0, past.width, WIDTH_UNIT):
            yield past.offset + channel, past.reach, past.width, past.rows_per_frame


def _conv(weights: ConvWeights) -> dict[Any, int]:
    return {t.WEIGHTS: weights.weights, t.BIAS: weights.bias}


def _activation(activation: Activation) -> dict[Any, int]:
    return {t.ALPHA: activation.alpha, t.INVERSE: activation.inverse}


def _past(past: Past) -> dict[Any, int]:
    return {t.PAST: past.offset + past.size}


def _end(past: Past) -> dict[Any, int]:
    return {t.END: past.offset, t.REACH: past.reach}
