"""What a launch tells its programs about each branch: one row of 32-bit numbers, read from device memory.

The columns are constants of the kernels too, so they are of Triton's type; `.value` is the number.
"""

from collections.abc import Mapping
from typing import Final

import triton.language as tl

COLUMNS: Final = tl.constexpr(16)

WEIGHTS: Final = tl.constexpr(0)
BIAS: Final = tl.constexpr(1)
TAPS: Final = tl.constexpr(2)  # of this branch and those before it, where one product joins them
DILATION: Final = tl.constexpr(3)
INPUT: Final = tl.constexpr(4)  # rows of this step
PAST: Final = tl.constexpr(5)  # end of the rows before them, within a slot's state
RESIDUAL: Final = tl.constexpr(6)
RAW: Final = tl.constexpr(7)  # where the sum goes, before activation
OUTPUT: Final = tl.constexpr(8)  # where it goes after
ALPHA: Final = tl.constexpr(9)
INVERSE: Final = tl.constexpr(10)
END: Final = tl.constexpr(11)  # the reader's past, within a row of ends
REACH: Final = tl.constexpr(12)  # how long it is
CODES_END: Final = tl.constexpr(13)
CODES_REACH: Final = tl.constexpr(14)


def table_row(values: Mapping[tl.constexpr, int]) -> list[int]:
    """A row with the named columns, zero elsewhere."""
    row = [0] * COLUMNS.value
    for column, value in values.items():
        row[column.value] = value
    return row
