"""From a batch's logits to its frames in one launch: what sampling.py computes, drawn alike to the last code.

Equal codes need equal float32 values wherever two of them are compared. So divisions round as IEEE 754 says, no
product is fused into a sum, and logarithm and exponential are taken in float64 and rounded once.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from workers.gepard.vllm_backend.slots import SlotTable

_WARPS = 4


class FrameSampler:
    """Draws the frames of a batch and keeps them. Fixed addresses, no allocation, no waiting: fits a CUDA graph.

    head_sizes: values a head, H heads. frames: the store, [rows, H] uint8, cut into lanes of `lane_rows` rows;
    row r is token frame0 + r. Frame n of a request goes to the row n places after its `SlotParams.origin`, around
    the end of the lane. It is read again (as input, and by the repetition penalty) while the request runs, so a
    lane has more rows than a request frames. eos: the token of an end. Launches must follow one another on one
    stream.
    """

    faults: Tensor
    """[1] int32: guided rows met without their partner. They drew nothing and were ended; must stay 0."""

    def __init__(
        self, *, head_sizes: Sequence[int], slots: SlotTable, frames: Tensor, lane_rows: int, frame0: int, eos: int
    ) -> None:
        """Raises ValueError for a store the kernel cannot count."""
        if frame0 + frames.shape[0] > 2**31:
            raise ValueError(f"{frames.shape[0]} rows from token {frame0} on do not fit int32")
        device = slots.rows.device
        self._slots = slots
        self._frames = frames
        self._lane_rows = lane_rows
        self._frame0 = frame0
        self._eos = eos
        self._head_sizes = torch.tensor(head_sizes, dtype=torch.int32, device=device)
        self._head_offsets = torch.tensor((0, *head_sizes[:-1])).cumsum(0).to(device, torch.int32)
        self._num_logits = sum(head_sizes)
        self._width = triton.next_power_of_2(max(head_sizes))
        self.faults = torch.zeros(1, dtype=torch.int32, device=device)

    def __call__(self, logits: Tensor, slots: Tensor, lengths: Tensor, tokens: Tensor, num_sampled: Tensor) -> None:
        """One frame, or the end, for every row.

        logits: [B, sum(head_sizes) + 1], the stop logit last, float32 or bfloat16, rows contiguous; the stop
        probability is rounded to this dtype. slots: [>= B] int32 or int64, slots.NONE for rows that are padding.
        lengths: [>= B] int32 or int64, positions read so far, the logits' own included. tokens: [>= B] int32 or
        int64, written: the token of the new frame; eos at the end and for rows that draw nothing (padding, and
        prefill that is not complete: lengths below prompt_length + known_frames). Rows of a pair get one token.
        num_sampled: [>= B] int32, written: 0 for those that draw nothing, else 1.
        """
        num_rows = logits.shape[0]
        _sample[(num_rows,)](
            logits,
            logits.stride(0),
            slots,
            lengths,
            tokens,
            num_sampled,
            num_rows,
            self._slots.rows,
            self._head_sizes,
            self._head_offsets,
            self._frames,
            self.faults,
            LANE_ROWS=self._lane_rows,
            FRAME0=self._frame0,
            EOS=self._eos,
            NUM_LOGITS=self._num_logits,
            HEADS=self._frames.shape[1],
            HEADS_BLOCK=triton.next_power_of_2(self._frames.shape[1]),
            WIDTH=self._width,
            COLUMNS=self._slots.rows.shape[1],
            num_warps=_WARPS,
            enable_fp_fusion=False,
        )


@triton.jit(do_not_specialize=["num_rows"])
def _sample(
    logits: tl.tensor,
    logits_stride: int,
    slots: tl.tensor,
    lengths: tl.tensor,
    tokens: tl.tensor,
    num_sampled: tl.tensor,
    num_rows: int,
    table: tl.tensor,
    head_sizes: tl.tensor,
    head_offsets: tl.tensor,
    frames: tl.tensor,
    faults: tl.tensor,
    LANE_ROWS: tl.constexpr,
    FRAME0: tl.constexpr,
    EOS: tl.constexpr,
    NUM_LOGITS: tl.constexpr,
    HEADS: tl.constexpr,
    HEADS_BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """One program a row. Columns of `table` by number: see slots.SlotParams.packed."""
    row = tl.program_id(0)
    slot = tl.load(slots + row)
    partner_row = -1
    is_read = False
    draws = slot >= 0
    if draws:
        known = tl.load(table + slot * COLUMNS + 8) + tl.load(table + slot * COLUMNS + 9)
        is_read = tl.load(lengths + row) >= known
        partner = tl.load(table + slot * COLUMNS + 10)
        if partner >= 0:
            partner_row = _find(slots, partner, num_rows)
        # The unconditional row of a pair gets its token from the other; without that one it ends.
        draws = tl.load(table + slot * COLUMNS + 11) == 0
    tl.store(num_sampled + row, tl.where(is_read, 1, 0))
    if draws:
        params = table + slot * COLUMNS
        frame = (tl.load(lengths + row) - tl.load(params + 8)).to(tl.int32)
        is_due = is_read
        is_guided = frame < tl.load(params + 6)
        if is_due & is_guided & (partner_row < 0):
            tl.atomic_add(faults, 1)
            is_due = False
        if is_due & (frame > 0):
            threshold = _real(params + 3)
            stop = tl.load(logits + row * logits_stride + NUM_LOGITS)
            is_due = (frame < tl.load(params + 7)) & (_probability(stop) <= threshold)
        origin = tl.load(params + 14)
        lane = origin // LANE_ROWS * LANE_ROWS
        store_row = lane + (origin - lane + frame) % LANE_ROWS
        if is_due:
            codes = _draw(
                logits + row * logits_stride,
                logits + tl.where(is_guided, partner_row, row) * logits_stride,
                is_guided,
                params,
                frame,
                frames + lane.to(tl.int64) * HEADS,
                origin - lane,
                head_sizes,
                head_offsets,
                HEADS,
                HEADS_BLOCK,
                WIDTH,
                LANE_ROWS,
            )
            heads = tl.arange(0, HEADS_BLOCK)
            tl.store(frames + store_row.to(tl.int64) * HEADS + heads, codes.to(tl.uint8), mask=heads < HEADS)
        token = tl.where(is_due, FRAME0 + store_row, EOS)
        tl.store(tokens + row, token)
        if partner_row >= 0:
            tl.store(tokens + partner_row, token)
    elif partner_row < 0:
        tl.store(tokens + row, EOS)


@triton.jit
def _draw(
    logits: tl.tensor,
    unconditional: tl.tensor,
    is_guided: tl.tensor,
    params: tl.tensor,
    frame: tl.tensor,
    lane: tl.tensor,
    start: tl.tensor,
    head_sizes: tl.tensor,
    head_offsets: tl.tensor,
    HEADS: tl.constexpr,
    HEADS_BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    LANE_ROWS: tl.constexpr,
) -> tl.tensor:
    """One code a head, [HEADS_BLOCK] int32, in the order of sampling.py; lane and start: see _seen."""
    heads = tl.arange(0, HEADS_BLOCK)
    sizes = tl.load(head_sizes + heads, mask=heads < HEADS, other=0)
    values = tl.arange(0, WIDTH)
    is_value = values[None, :] < sizes[:, None]
    columns = tl.load(head_offsets + heads, mask=heads < HEADS, other=0)[:, None] + values[None, :]
    shaped = tl.load(logits + columns, mask=is_value, other=0.0).to(tl.float32)
    if is_guided:
        other = tl.load(unconditional + columns, mask=is_value, other=0.0).to(tl.float32)
        shaped = other + _real(params + 2) * (shaped - other)
    shaped = tl.where(is_value, shaped, -float("inf"))

    penalty = _real(params + 1)
    if penalty != 1.0:
        first = tl.maximum(frame - tl.load(params + 5), 0)
        seen = _seen(lane, start, first, frame, heads, HEADS, LANE_ROWS)
        penalised = tl.where(shaped > 0, _divide(shaped, penalty), shaped * penalty)
        shaped = tl.where((seen[:, None] >> values[None, :]) & 1 != 0, penalised, shaped)
    temperature = _real(params)
    if temperature > 0:
        shaped = _divide(shaped, temperature)
    top_k = tl.load(params + 4)
    if top_k < WIDTH:
        # Kept are the values with fewer than k above them: the k largest, and what equals the k-th.
        above = tl.sum((shaped[:, None, :] > shaped[:, :, None]).to(tl.int32), axis=2)
        shaped = tl.where(above < top_k, shaped, -float("inf"))
    if temperature > 0:
        shaped += _gumbel(_word(params + 12), _word(params + 13), frame, heads[:, None], values[None, :])
    # Where logits are not numbers, padding may have won.
    return tl.minimum(tl.argmax(shaped, axis=1), tl.maximum(sizes - 1, 0))


@triton.jit
def _real(param: tl.tensor) -> tl.tensor:
    """A float32 of the table."""
    return tl.load(param).to(tl.float32, bitcast=True)


@triton.jit
def _word(param: tl.tensor) -> tl.tensor:
    """Half a seed, as uint64."""
    return tl.load(param).to(tl.uint32, bitcast=True).to(tl.uint64)


@triton.jit
def _divide(values: tl.tensor, divisor: tl.tensor) -> tl.tensor:
    """Each of a block's values by one divisor, correctly rounded."""
    return tl.div_rn(values, tl.full(values.shape, divisor, tl.float32))


@triton.jit
def _find(slots: tl.tensor, slot: tl.tensor, num_rows: int) -> tl.tensor:
    """The batch row of a slot, or -1."""
    found = -1
    for start in range(0, num_rows, 256):
        rows = start + tl.arange(0, 256)
        is_slot = tl.load(slots + rows, mask=rows < num_rows, other=-1) == slot
        found = tl.maximum(found, tl.max(tl.where(is_slot, rows, -1)))
    return found


@triton.jit
def _probability(logit: tl.tensor) -> tl.tensor:
    """Sigmoid, rounded to the logit's dtype, as float32; 0 below -88, where the exponential leaves float32."""
    wide = logit.to(tl.float32)
    exponential = tl.exp(-tl.maximum(wide, -88.0).to(tl.float64)).to(tl.float32)
    probability = tl.where(wide >= -88.0, tl.div_rn(1.0, 1.0 + exponential), 0.0)
    if logit.dtype == tl.bfloat16:
        # To the nearest, ties to even; by hand, since the interpreter's conversion cuts off.
        bits = probability.to(tl.int32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000
        probability = bits.to(tl.float32, bitcast=True)
    return probability


@triton.jit
def _seen(
    lane: tl.tensor,
    start: tl.tensor,
    first: tl.tensor,
    end: tl.tensor,
    heads: tl.tensor,
    HEADS: tl.constexpr,
    LANE_ROWS: tl.constexpr,
) -> tl.tensor:
    """Which values each head produced in frames first..end-1, bit v for value v: [heads] int64.

    lane: the codes of a lane, in which frame 0 is row `start`.
    """
    seen = tl.zeros(heads.shape, tl.int64)
    for block in range(first, end, 32):
        indices = block + tl.arange(0, 32)
        rows = (start + indices) % LANE_ROWS
        is_code = (indices < end)[:, None] & (heads < HEADS)[None, :]
        codes = tl.load(lane + rows[:, None] * HEADS + heads[None, :], mask=is_code, other=0)
        bits = tl.where(is_code, tl.full(codes.shape, 1, tl.int64) << codes.to(tl.int64), 0)
        seen |= tl.reduce_or(bits, axis=0)
    return seen


@triton.jit
def _gumbel(
    seed_low: tl.tensor, seed_high: tl.tensor, frame: tl.tensor, heads: tl.tensor, values: tl.tensor
) -> tl.tensor:
    """sampling.gumbel_noise of one frame; heads: [H, 1], values: [1, W]."""
    zeros = (heads + values) * 0
    seed = seed_low | (seed_high << 32)
    word0, word1, word2, word3 = tl.philox(seed, zeros + frame, zeros + heads, zeros + values // 4, zeros)
    which = values % 4
    words = tl.where(which == 0, word0, tl.where(which == 1, word1, tl.where(which == 2, word2, word3)))
    uniform = ((words >> 9).to(tl.float32) + 0.5) * 2.0**-23
    return (-tl.log(-tl.log(uniform.to(tl.float64)))).to(tl.float32)
