"""How a value leaves a kernel: activated, within the range of its type, at its place and at the reader's past."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from workers.nanocodec.layers import LEAKY_SLOPE

_LEAKY_SLOPE = tl.constexpr(LEAKY_SLOPE)


@triton.jit
def half_snake(x, alpha, inverse, columns, HALF: tl.constexpr, FAST_SINE: tl.constexpr):
    """x [rows, columns] float32; alpha and 1 / alpha [columns], zero in columns from HALF on, which are leaky.

    As one formula, max(x, slope x) + sin(alpha x)^2 / alpha, with slope 1 for snake.
    """
    scaled = x * alpha[None, :]
    if FAST_SINE:
        sine = libdevice.fast_sinf(scaled)
    else:
        sine = tl.sin(scaled)
    slope = tl.where(columns < HALF, 1.0, _LEAKY_SLOPE)
    return tl.maximum(x, x * slope[None, :]) + inverse[None, :] * (sine * sine)


@triton.jit
def clamped(x, target, LIMIT: tl.constexpr):
    """x in the type that `target` points to, within its finite range.

    An infinity would turn to NaN and stay in a stream's past.
    """
    return tl.minimum(tl.maximum(x, -LIMIT), LIMIT).to(target.dtype.element_ty)


@triton.jit
def largest(x):
    """Largest magnitude of each row [rows, columns]: taken while x is at hand, it costs no memory and no barrier."""
    return tl.max(tl.abs(x), axis=1)


@triton.jit
def count_clamped(magnitudes, is_row, clamps, LIMIT: tl.constexpr):
    """Count the rows in which a value was beyond the limit."""
    tl.atomic_add(clamps + tl.zeros_like(magnitudes).to(tl.int32), 1, mask=is_row & (magnitudes > LIMIT))


@triton.jit
def store_end(arena, x, is_kept, rows, last_row, columns, end, reach, log_rows, ENDS, STATE_SIZE, WIDTH):
    """Put the last `reach` rows of each entry where the state kernel finds them.

    rows: numbered through all entries, 1 << log_rows each; end: offset of the past in a row of ends.
    """
    first = (1 << log_rows) - reach
    # Tiles and entries have a power of two of rows, so no row of a tile is nearer to its entry's end than the last.
    if (last_row & ((1 << log_rows) - 1)) >= first:
        place = (rows & ((1 << log_rows) - 1)) - first
        offsets = ENDS + (rows >> log_rows) * STATE_SIZE + end + place * WIDTH
        tl.store(arena + (offsets[:, None] + columns[None, :]), x, mask=is_kept & (place >= 0)[:, None])
