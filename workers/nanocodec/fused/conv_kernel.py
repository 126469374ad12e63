"""The convolutions between equal numbers of channels: matrix products over shifted rows.

An output row is the sum over the taps of (input row some steps back) x (matrix of the tap). Input rows of this
step lie in a buffer, those before it in the slot's state: each row chooses its address, and no copy joins them.
"""

import triton
import triton.language as tl

from workers.nanocodec.fused import table as t
from workers.nanocodec.fused.store_kernel import clamped, count_clamped, half_snake, largest, store_end


@triton.jit(do_not_specialize=["num_rows", "log_rows", "ends"])
def conv_kernel(  # noqa: PLR0915  a launch is one function
    arena: tl.tensor,
    matrices: tl.tensor,
    vectors: tl.tensor,
    table: tl.tensor,
    slots: tl.tensor,
    clamps: tl.tensor,
    num_rows: int,
    log_rows: int,
    ends: int,
    WIDTH: tl.constexpr,
    HALF: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    STATE_SIZE: tl.constexpr,
    RESIDUALS: tl.constexpr,
    JOINED: tl.constexpr,
    LIMIT: tl.constexpr,
    FAST_SINE: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    TILE_COLUMNS: tl.constexpr,
    TILE_DEPTH: tl.constexpr,
    STAGES: tl.constexpr,
) -> None:
    """One tile of one branch (axis 2), or of all three added up where they are JOINED.

    num_rows: of all entries; 1 << log_rows of each. RESIDUALS: whether to add to earlier values; not JOINED, the
    sum is then stored besides the activation. All offsets in elements.
    """
    row = table + tl.program_id(2) * t.COLUMNS
    rows = tl.program_id(1) * TILE_ROWS + tl.arange(0, TILE_ROWS)
    last_row = tl.program_id(1) * TILE_ROWS + (TILE_ROWS - 1)
    columns = tl.program_id(0) * TILE_COLUMNS + tl.arange(0, TILE_COLUMNS)
    is_row = rows < num_rows
    entries = tl.where(is_row, rows >> log_rows, 0)
    times = rows & ((1 << log_rows) - 1)
    present = entries * (WIDTH << log_rows) + times * WIDTH
    before = tl.load(slots + entries) * STATE_SIZE + times * WIDTH
    is_kept = is_row[:, None] & (columns < WIDTH)[None, :]
    places = present[:, None] + columns[None, :]

    # Residuals are the start of the sum: read after the loop they would need registers beside it, and spill.
    bias = tl.load(vectors + tl.load(row + t.BIAS) + columns)
    total = tl.broadcast_to(bias[None, :], (TILE_ROWS, TILE_COLUMNS))
    if RESIDUALS:
        earlier = tl.multiple_of(tl.load(row + t.RESIDUAL), 16)
        total += tl.load(arena + (earlier + places), mask=is_kept, other=0.0).to(tl.float32)
        if JOINED:
            earlier = tl.multiple_of(tl.load(row + t.COLUMNS + t.RESIDUAL), 16)
            total += tl.load(arena + (earlier + places), mask=is_kept, other=0.0).to(tl.float32)
            earlier = tl.multiple_of(tl.load(row + 2 * t.COLUMNS + t.RESIDUAL), 16)
            total += tl.load(arena + (earlier + places), mask=is_kept, other=0.0).to(tl.float32)

    taps = tl.load(row + t.TAPS)
    dilation = tl.load(row + t.DILATION)
    source = tl.multiple_of(tl.load(row + t.INPUT), 16)
    past = tl.multiple_of(tl.load(row + t.PAST), 16)
    if JOINED:
        taps_1 = tl.load(row + t.COLUMNS + t.TAPS)
        source_1 = tl.multiple_of(tl.load(row + t.COLUMNS + t.INPUT), 16)
        past_1 = tl.multiple_of(tl.load(row + t.COLUMNS + t.PAST), 16)
        taps_2 = tl.load(row + 2 * t.COLUMNS + t.TAPS)
        source_2 = tl.multiple_of(tl.load(row + 2 * t.COLUMNS + t.INPUT), 16)
        past_2 = tl.multiple_of(tl.load(row + 2 * t.COLUMNS + t.PAST), 16)
        num_taps = taps_2
    else:
        num_taps = taps

    depths = tl.arange(0, TILE_DEPTH)
    matrix = tl.multiple_of(tl.load(row + t.WEIGHTS), 16)
    weights = matrices + matrix + (depths[:, None] * COLUMNS + columns[None, :])
    for block in tl.range(0, num_taps * (DEPTH // TILE_DEPTH), num_stages=STAGES):
        tap = block // (DEPTH // TILE_DEPTH)
        channel = (block % (DEPTH // TILE_DEPTH)) * TILE_DEPTH
        if JOINED:
            is_0 = tap < taps
            is_1 = tap < taps_1
            back = tl.where(is_0, taps, tl.where(is_1, taps_1, taps_2)) - 1 - tap
            from_present = tl.where(is_0, source, tl.where(is_1, source_1, source_2))
            from_past = tl.where(is_0, past, tl.where(is_1, past_1, past_2))
        else:
            back = (taps - 1 - tap) * dilation
            from_present = source
            from_past = past
        offsets = tl.where(times >= back, present + from_present, before + from_past) - back * WIDTH + channel
        offsets = tl.multiple_of(offsets, 16)
        values = tl.load(arena + (offsets[:, None] + depths[None, :]))
        total = tl.dot(values, tl.load(weights), total, input_precision="ieee")
        weights += TILE_DEPTH * COLUMNS

    if JOINED:
        total = total * (1.0 / 3.0)
    elif RESIDUALS:
        raw = tl.multiple_of(tl.load(row + t.RAW), 16)
        tl.store(arena + (raw + places), clamped(total, arena, LIMIT), mask=is_kept)
        count_clamped(largest(total), is_row, clamps, LIMIT)
    alpha = tl.load(vectors + tl.load(row + t.ALPHA) + columns)
    inverse = tl.load(vectors + tl.load(row + t.INVERSE) + columns)
    total = half_snake(total, alpha, inverse, columns, HALF, FAST_SINE)
    result = clamped(total, arena, LIMIT)
    count_clamped(largest(total), is_row, clamps, LIMIT)
    output = tl.multiple_of(tl.load(row + t.OUTPUT), 16)
    tl.store(arena + (output + places), result, mask=is_kept)
    end = tl.multiple_of(tl.load(row + t.END), 16)
    reach = tl.load(row + t.REACH)
    store_end(arena, result, is_kept, rows, last_row, columns, end, reach, log_rows, ends, STATE_SIZE, WIDTH)
