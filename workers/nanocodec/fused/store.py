"""How a value leaves a kernel: activated, within the range of its type, at its place and at the reader's past."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from workers.nanocodec.layers import LEAKY_SLOPE

_LEAKY_SLOPE = tl.constexpr(LEAKY_SLOPE)


@triton.jit
def half_snake(x, alpha, inverse, columns, HALF: tl.constexpr, FAST_SINE: tl.constexpr):
    """x [rows, columns] float32; alpha and 1 / alpha [columns], zero in columns from HALF on, which are leaky."""
    scaled = x * alpha[None, :]
    if FAST_SINE:
        sine = libdevice.fast_sinf(scaled)
    else:
        sine = tl.sin(scaled)
    periodic = x + inverse[None, :] * (sine * sine)
    leaky = tl.where(x >= 0, x, x * _LEAKY_SLOPE)
    return tl.where(columns[None, :] < HALF, periodic, leaky)


@triton.jit
def clamped(x, is_kept, clamps, LIMIT: tl.constexpr):
    """x within the finite range of the stored type: an infinity would turn to NaN and stay in a stream's past.

    Values that had to be clamped are counted, of those that are kept.
    """
    if tl.max(tl.max(tl.abs(x), axis=1), axis=0) > LIMIT:
        too_large = is_kept & (tl.abs(x) > LIMIT)
        tl.atomic_add(clamps, tl.sum(tl.sum(too_large.to(tl.int32), axis=1), axis=0))
    return tl.minimum(tl.maximum(x, -LIMIT), LIMIT)


@triton.jit
def store_end(arena, x, is_kept, entries, times, columns, end, reach, log_rows, ENDS, STATE_SIZE, WIDTH):
    """Put the last `reach` of an entry's rows where the state kernel finds them; end: offset of the past."""
    place = times - ((1 << log_rows) - reach)
    offsets = ENDS + entries * STATE_SIZE + end + place * WIDTH
    tl.store(arena + (offsets[:, None] + columns[None, :]), x, mask=is_kept & (place >= 0)[:, None])
