"""How a value leaves a kernel: activated, within the range of its type, at its place and at the reader's past."""

from typing import Final

import triton
import triton.language as tl
from triton.language.extra import libdevice

from workers.nanocodec.fused.plan import WIDTH_UNIT
from workers.nanocodec.layers import LEAKY_SLOPE

UNIT: Final = tl.constexpr(WIDTH_UNIT)
_LEAKY_SLOPE = tl.constexpr(LEAKY_SLOPE)


@triton.jit
def half_snake(
    x: tl.tensor,
    alpha: tl.tensor,
    inverse: tl.tensor,
    columns: tl.tensor,
    HALF: tl.constexpr,
    FAST_SINE: tl.constexpr,
) -> tl.tensor:
    """x [rows, columns] float32; alpha and 1 / alpha [columns], zero in columns from HALF on, which are leaky.

    As one formula, max(x, slope x) + sin(alpha x)^2 / alpha, with slope 1 for snake.
    """
    scaled = x * alpha[None, :]
    sine = libdevice.fast_sinf(scaled) if FAST_SINE else tl.sin(scaled)
    slope = tl.where(columns < HALF, 1.0, _LEAKY_SLOPE)
    return tl.maximum(x, x * slope[None, :]) + inverse[None, :] * (sine * sine)


@triton.jit
def clamped(
    x: tl.tensor,
    target: tl.tensor,
    LIMIT: tl.constexpr,
) -> tl.tensor:
    """x in the type that `target` points to, within its finite range.

    An infinity would turn to NaN and stay in a stream's past.
    """
    return tl.minimum(tl.maximum(x, -LIMIT), LIMIT).to(target.dtype.element_ty)


@triton.jit
def largest(
    x: tl.tensor,
) -> tl.tensor:
    """Largest magnitude of each row [rows, columns]: taken while x is at hand, it costs no memory and no barrier."""
    return tl.max(tl.abs(x), axis=1)


@triton.jit
def count_clamped(
    magnitudes: tl.tensor,
    is_row: tl.tensor,
    clamps: tl.tensor,
    LIMIT: tl.constexpr,
) -> None:
    """Count the rows in which a value was beyond the limit."""
    tl.atomic_add(clamps + tl.zeros_like(magnitudes).to(tl.int32), 1, mask=is_row & (magnitudes > LIMIT))


@triton.jit
def store_end(
    arena: tl.tensor,
    x: tl.tensor,
    is_kept: tl.tensor,
    rows: tl.tensor,
    last_row: tl.tensor,
    columns: tl.tensor,
    end: tl.tensor,
    reach: tl.tensor,
    log_rows: int,
    ends: int,
    STATE_SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    """Put the last `reach` rows of each entry where the state kernel finds them.

    rows: numbered through all entries, 1 << log_rows each; end: offset of the past in a row of ends. `ends` counts in
    units, so that the compiler knows its divisor.
    """
    first = (1 << log_rows) - reach
    # Tiles and entries have a power of two of rows, so no row of a tile is nearer to its entry's end than the last.
    if (last_row & ((1 << log_rows) - 1)) >= first:
        place = (rows & ((1 << log_rows) - 1)) - first
        offsets = ends * UNIT + (rows >> log_rows) * STATE_SIZE + end + place * WIDTH
        tl.store(arena + (offsets[:, None] + columns[None, :]), x, mask=is_kept & (place >= 0)[:, None])
