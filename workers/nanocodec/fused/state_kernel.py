"""The end of a step: what it left behind becomes the past of the next."""

import triton
import triton.language as tl

from workers.nanocodec.fused.store_kernel import UNIT


@triton.jit(do_not_specialize=["num_short", "start", "log_frames", "ends"])
def state_kernel(
    arena: tl.tensor,
    shorts: tl.tensor,
    slots: tl.tensor,
    num_short: int,
    start: int,
    log_frames: int,
    ends: int,
    STATE_SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:
    """Axis 0: entries of the batch. Axis 1: first `num_short` pieces of pasts, then blocks from `start` on;
    `start` and `ends` in units.

    Where a step brings at least as many rows as a past is long, the past is what the step put aside, copied as it
    lies. A short step moves the old rows up and puts its own behind them: row `shorts` [num_short, 4] of a piece
    says where the past begins, how long and how wide it is, and how many rows of it a frame brings.
    """
    entry = tl.program_id(0)
    piece = tl.program_id(1)
    state = tl.load(slots + entry) * STATE_SIZE
    put_aside = ends * UNIT + entry * STATE_SIZE
    if piece < num_short:
        row = shorts + piece * 4
        offset = tl.multiple_of(tl.load(row), 16)
        reach = tl.load(row + 1)
        width = tl.multiple_of(tl.load(row + 2), 16)
        new_rows = tl.load(row + 3) << log_frames
        rows = tl.arange(0, ROWS)
        places = (rows * width)[:, None] + tl.arange(0, UNIT)[None, :] + offset
        is_past = (rows < reach)[:, None]
        is_new = (rows >= reach - new_rows)[:, None]
        old = tl.load(arena + (state + places + new_rows * width), mask=is_past & ~is_new, other=0.0)
        new = tl.load(arena + (put_aside + places), mask=is_past & is_new, other=0.0)
        # Rows move within the same memory: all must be read before the first is written.
        tl.debug_barrier()
        tl.store(arena + (state + places), tl.where(is_new, new, old), mask=is_past)
    else:
        offsets = start * UNIT + (piece - num_short) * BLOCK + tl.arange(0, BLOCK)
        is_state = offsets < STATE_SIZE
        values = tl.load(arena + (put_aside + offsets), mask=is_state, other=0.0)
        tl.store(arena + (state + offsets), values, mask=is_state)
