"""Tile sizes of the convolutions, by size of the step and width of the layer.

Measured on an H200 (benchmarks/gpu/codec.py). Few frames: small tiles, so that all multiprocessors have work.
Many: large ones, so that a weight is used often; four warps, so that one tile's end hides behind the next tile's
products on the same multiprocessor.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Tile:
    """rows x columns of the output, `depth` input channels at a time; `stages` loads in flight."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


class TileChoice(Protocol):
    """How a step of `frames` frames in all tiles the layers of `width` padded channels."""

    def __call__(self, frames: int, width: int) -> Tile: ...


_FEW = {
    448: Tile(32, 32, 64, 4, 6),
    224: Tile(64, 32, 64, 4, 5),
    128: Tile(64, 32, 128, 4, 3),
    64: Tile(64, 32, 64, 4, 5),
    32: Tile(64, 32, 32, 4, 4),
}
_MANY = {
    448: Tile(128, 128, 64, 4, 3),
    224: Tile(128, 128, 32, 4, 5),
    128: Tile(128, 128, 32, 4, 5),
    64: Tile(128, 64, 64, 4, 3),
    32: Tile(128, 32, 32, 4, 4),
}
_SOME = _MANY | {448: Tile(64, 64, 64, 4, 5)}

_FEW_FRAMES = 8
_MANY_FRAMES = 128


def measured_tiles(frames: int, width: int) -> Tile:
    """The fastest known; for widths that the released codec has not, those of the next larger."""
    if frames <= _FEW_FRAMES:
        tiles = _FEW
    else:
        tiles = _SOME if frames < _MANY_FRAMES else _MANY
    return tiles[min((known for known in tiles if known >= width), default=max(tiles))]


def column_unit(width: int) -> int:
    """Weights and parameters are padded to a multiple of this many columns: the widest tile, a power of two."""
    return min(128, 1 << (width - 1).bit_length())


def depth_unit(width: int) -> int:
    """Likewise for the input channels of one tap."""
    return min(64, width)
