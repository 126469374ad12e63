"""The kernels around the convolutions: codes in, up from rate to rate, samples out."""

import triton
import triton.language as tl

from workers.nanocodec.config import LEVELS
from workers.nanocodec.fused import table as t
from workers.nanocodec.fused.store_kernel import clamped, count_clamped, half_snake, largest, store_end

CODES: tl.constexpr = tl.constexpr(32)  # of a frame, and the width of their past
_HALF_0 = tl.constexpr(LEVELS[0] // 2)
_HALF_1 = tl.constexpr(LEVELS[1] // 2)
_HALF_2 = tl.constexpr(LEVELS[2] // 2)
_HALF_3 = tl.constexpr(LEVELS[3] // 2)


@triton.jit(do_not_specialize=["num_rows", "log_rows", "batch", "ends"])
def pre_kernel(
    arena: tl.tensor,
    matrices: tl.tensor,
    vectors: tl.tensor,
    table: tl.tensor,
    control: tl.tensor,
    slots: tl.tensor,
    clamps: tl.tensor,
    num_rows: int,
    log_rows: int,
    batch: int,
    ends: int,
    WIDTH: tl.constexpr,
    HALF: tl.constexpr,
    COLUMNS: tl.constexpr,
    TAPS: tl.constexpr,
    STATE_SIZE: tl.constexpr,
    LIMIT: tl.constexpr,
    FAST_SINE: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    TILE_COLUMNS: tl.constexpr,
) -> None:
    """First convolution, from frames of codes; the activation of the first upsampler.

    control: int64, its first value the address of the store of frames [., 32] uint8. Behind `slots` [batch] lie
    the frames' rows [batch, time]. Codes become whole numbers around 0, which every precision holds exactly.
    """
    frames = tl.load(control).to(tl.pointer_type(tl.uint8))
    rows = tl.program_id(1) * TILE_ROWS + tl.arange(0, TILE_ROWS)
    last_row = tl.program_id(1) * TILE_ROWS + (TILE_ROWS - 1)
    columns = tl.program_id(0) * TILE_COLUMNS + tl.arange(0, TILE_COLUMNS)
    is_row = rows < num_rows
    entries = tl.where(is_row, rows >> log_rows, 0)
    times = rows & ((1 << log_rows) - 1)
    is_kept = is_row[:, None] & (columns < WIDTH)[None, :]
    codes = tl.arange(0, CODES)
    digit = codes % 4
    half = tl.where(digit == 0, _HALF_0, tl.where(digit == 1, _HALF_1, tl.where(digit == 2, _HALF_2, _HALF_3)))
    past = tl.load(slots + entries) * STATE_SIZE + tl.load(table + t.PAST)

    bias = tl.load(vectors + tl.load(table + t.BIAS) + columns)
    total = tl.broadcast_to(bias[None, :], (TILE_ROWS, TILE_COLUMNS))
    weights = matrices + tl.load(table + t.WEIGHTS) + (codes[:, None] * COLUMNS + columns[None, :])
    for tap in tl.static_range(TAPS):
        moved = times - (TAPS - 1 - tap)
        is_new = is_row & (moved >= 0)
        is_old = is_row & (moved < 0)
        frame = tl.load(slots + batch + rows - (TAPS - 1 - tap), mask=is_new, other=0)
        new = tl.load(frames + (frame[:, None] * CODES + codes[None, :]), mask=is_new[:, None], other=0)
        old = tl.load(arena + ((past + moved * CODES)[:, None] + codes[None, :]), mask=is_old[:, None], other=0.0)
        whole = (new.to(tl.int32) - half[None, :]).to(arena.dtype.element_ty)
        values = tl.where(is_new[:, None], whole, old)
        total = tl.dot(values, tl.load(weights), total, input_precision="ieee")
        weights += CODES * COLUMNS
        if tap == TAPS - 1:
            is_mine = is_row[:, None] & (tl.program_id(0) == 0)
            end = tl.load(table + t.CODES_END)
            reach = tl.load(table + t.CODES_REACH)
            store_end(arena, values, is_mine, rows, last_row, codes, end, reach, log_rows, ends, STATE_SIZE, CODES)

    alpha = tl.load(vectors + tl.load(table + t.ALPHA) + columns)
    inverse = tl.load(vectors + tl.load(table + t.INVERSE) + columns)
    total = half_snake(total, alpha, inverse, columns, HALF, FAST_SINE)
    result = clamped(total, arena, LIMIT)
    count_clamped(largest(total), is_row, clamps, LIMIT)
    output = tl.load(table + t.OUTPUT)
    tl.store(arena + (output + rows * WIDTH)[:, None] + columns[None, :], result, mask=is_kept)
    end = tl.load(table + t.END)
    store_end(arena, result, is_kept, rows, last_row, columns, end, 1, log_rows, ends, STATE_SIZE, WIDTH)


@triton.jit(do_not_specialize=["num_rows", "log_rows", "ends"])
def upsample_kernel(
    arena: tl.tensor,
    vectors: tl.tensor,
    table: tl.tensor,
    slots: tl.tensor,
    clamps: tl.tensor,
    num_rows: int,
    log_rows: int,
    ends: int,
    IN_WIDTH: tl.constexpr,
    WIDTH: tl.constexpr,
    HALF: tl.constexpr,
    COLUMNS: tl.constexpr,
    LOG_RATE: tl.constexpr,
    STATE_SIZE: tl.constexpr,
    BRANCHES: tl.constexpr,
    LIMIT: tl.constexpr,
    FAST_SINE: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    TILE_COLUMNS: tl.constexpr,
) -> None:
    """Transposed convolution with kernel 2 rate and stride rate; two input channels make one output channel.

    num_rows, log_rows: of the input. A program makes every rate-th output row of its tile, beginning with axis 2:
    output row (time, phase) is x[time] w[phase] + x[time - 1] w[phase + rate]. Stored as it is, for the branches
    to add to, and activated for each branch.
    """
    phase = tl.program_id(2)
    rate = 1 << LOG_RATE
    rows = tl.program_id(1) * TILE_ROWS + tl.arange(0, TILE_ROWS)
    last_row = tl.program_id(1) * TILE_ROWS + (TILE_ROWS - 1)
    columns = tl.program_id(0) * TILE_COLUMNS + tl.arange(0, TILE_COLUMNS)
    pairs = tl.program_id(0) * 2 * TILE_COLUMNS + tl.arange(0, 2 * TILE_COLUMNS)
    is_row = rows < num_rows
    entries = tl.where(is_row, rows >> log_rows, 0)
    times = rows & ((1 << log_rows) - 1)
    is_kept = is_row[:, None] & (columns < WIDTH)[None, :]
    is_input = is_row[:, None] & (pairs < IN_WIDTH)[None, :]

    present = tl.multiple_of(tl.load(table + t.INPUT), 16) + rows * IN_WIDTH
    past = tl.load(slots + entries) * STATE_SIZE + tl.multiple_of(tl.load(table + t.PAST), 16) - IN_WIDTH
    before = tl.multiple_of(tl.where(times > 0, present - IN_WIDTH, past), 16)
    now = tl.load(arena + (present[:, None] + pairs[None, :]), mask=is_input, other=0.0).to(tl.float32)
    then = tl.load(arena + (before[:, None] + pairs[None, :]), mask=is_input, other=0.0).to(tl.float32)
    now_even, now_odd = tl.split(tl.reshape(now, (TILE_ROWS, TILE_COLUMNS, 2)))
    then_even, then_odd = tl.split(tl.reshape(then, (TILE_ROWS, TILE_COLUMNS, 2)))

    weights = vectors + tl.load(table + t.WEIGHTS) + phase * 2 * COLUMNS + columns
    total = now_even * tl.load(weights)[None, :] + now_odd * tl.load(weights + COLUMNS)[None, :]
    weights += rate * 2 * COLUMNS
    total += then_even * tl.load(weights)[None, :] + then_odd * tl.load(weights + COLUMNS)[None, :]
    total += tl.load(vectors + tl.load(table + t.BIAS) + columns)[None, :]

    out_log = log_rows + LOG_RATE
    out_rows = rows * rate + phase
    last_out_row = last_row * rate + phase
    places = (out_rows * WIDTH)[:, None] + columns[None, :]
    raw = tl.multiple_of(tl.load(table + t.RAW), 16)
    tl.store(arena + (raw + places), clamped(total, arena, LIMIT), mask=is_kept)
    count_clamped(largest(total), is_row, clamps, LIMIT)
    for branch in tl.static_range(BRANCHES):
        row = table + branch * t.COLUMNS
        alpha = tl.load(vectors + tl.load(row + t.ALPHA) + columns)
        inverse = tl.load(vectors + tl.load(row + t.INVERSE) + columns)
        active = half_snake(total, alpha, inverse, columns, HALF, FAST_SINE)
        result = clamped(active, arena, LIMIT)
        count_clamped(largest(active), is_row, clamps, LIMIT)
        output = tl.multiple_of(tl.load(row + t.OUTPUT), 16)
        tl.store(arena + (output + places), result, mask=is_kept)
        end = tl.multiple_of(tl.load(row + t.END), 16)
        reach = tl.load(row + t.REACH)
        store_end(arena, result, is_kept, out_rows, last_out_row, columns, end, reach, out_log, ends, STATE_SIZE, WIDTH)


@triton.jit(do_not_specialize=["num_rows", "log_rows"])
def post_kernel(
    arena: tl.tensor,
    vectors: tl.tensor,
    table: tl.tensor,
    slots: tl.tensor,
    samples: tl.tensor,
    num_rows: int,
    log_rows: int,
    WIDTH: tl.constexpr,
    TAPS: tl.constexpr,
    STATE_SIZE: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    TILE_WIDTH: tl.constexpr,
) -> None:
    """Last convolution, to one channel, clamped to [-1, 1]: samples [rows], float32."""
    rows = tl.program_id(0) * TILE_ROWS + tl.arange(0, TILE_ROWS)
    columns = tl.arange(0, TILE_WIDTH)
    is_column = columns < WIDTH
    is_row = rows < num_rows
    is_read = is_row[:, None] & is_column[None, :]
    entries = tl.where(is_row, rows >> log_rows, 0)
    times = rows & ((1 << log_rows) - 1)
    present = rows * WIDTH + tl.multiple_of(tl.load(table + t.INPUT), 16)
    past = tl.multiple_of(tl.load(table + t.PAST), 16)
    before = tl.load(slots + entries) * STATE_SIZE + times * WIDTH + past
    weights = vectors + tl.load(table + t.WEIGHTS) + columns
    total = tl.zeros((TILE_ROWS, TILE_WIDTH), tl.float32)
    for tap in tl.static_range(TAPS):
        back = TAPS - 1 - tap
        offsets = tl.multiple_of(tl.where(times >= back, present, before) - back * WIDTH, 16)
        values = tl.load(arena + (offsets[:, None] + columns[None, :]), mask=is_read, other=0.0).to(tl.float32)
        total += values * tl.load(weights + tap * WIDTH, mask=is_column, other=0.0)[None, :]
    result = tl.sum(total, axis=1) + tl.load(vectors + tl.load(table + t.BIAS))
    tl.store(samples + rows, tl.minimum(tl.maximum(result, -1.0), 1.0), mask=is_row)
