"""Tile sizes of the kernels, by size of the step and width of the layer.

Measured on an H200 (benchmarks/gpu/codec.py). Few frames: small tiles, so that all multiprocessors have work.
Many: large ones, so that a weight is used often; four warps, so that one tile's end hides behind the next tile's
products on the same multiprocessor.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Tile:
    """rows x columns of the output, `depth` input channels at a time; `stages` loads in flight. Powers of two."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


class Tiles(Protocol):
    """Chooses for all kernels."""

    edge_elements: int  # of a tile of the kernels that only move and add

    def conv(self, frames: int, width: int) -> Tile:
        """How a step of `frames` frames in all tiles the layers of `width` padded channels."""
        ...


_LARGE = {
    448: Tile(128, 128, 64, 4, 3),
    224: Tile(128, 128, 64, 4, 3),
    128: Tile(128, 128, 64, 4, 3),
    64: Tile(128, 64, 64, 4, 3),
    32: Tile(128, 32, 32, 4, 4),
}

# Largest number of frames, and the tiles up to there; _LARGE above.
_CLASSES = (
    (
        8,
        {
            448: Tile(16, 32, 64, 4, 6),
            224: Tile(64, 32, 64, 4, 5),
            128: Tile(64, 32, 128, 4, 3),
            64: Tile(64, 32, 64, 4, 5),
            32: Tile(64, 32, 32, 4, 4),
        },
    ),
    (
        32,
        {
            448: Tile(64, 64, 64, 4, 5),
            224: Tile(64, 64, 64, 4, 4),
            128: Tile(64, 64, 64, 4, 4),
            64: Tile(64, 64, 64, 4, 4),
            32: Tile(128, 32, 32, 4, 4),
        },
    ),
    (
        127,
        {
            448: Tile(64, 64, 64, 4, 5),
            224: Tile(64, 128, 64, 4, 3),
            128: Tile(64, 128, 64, 4, 3),
            64: Tile(128, 64, 64, 4, 3),
            32: Tile(128, 32, 32, 4, 4),
        },
    ),
    (128, _LARGE | {448: Tile(64, 64, 64, 4, 5)}),
)


class MeasuredTiles:
    """The fastest known; for widths that the released codec has not, those of the next larger."""

    edge_elements = 2048

    def conv(self, frames: int, width: int) -> Tile:
        tiles = next((tiles for most, tiles in _CLASSES if frames <= most), _LARGE)
        return tiles[min((known for known in tiles if known >= width), default=max(tiles))]


class SmallTiles:
    """For float32, which has no matrix units: large tiles would not fit into registers. Not tuned."""

    edge_elements = 1024

    def conv(self, frames: int, width: int) -> Tile:  # noqa: ARG002
        return Tile(64, 32, 32, 4, 3)


def column_unit(width: int) -> int:
    """Weights and parameters are padded to a multiple of this many columns: the widest tile, a power of two."""
    return min(128, 1 << (width - 1).bit_length())


def depth_unit(width: int) -> int:
    """Likewise for the input channels of one tap."""
    return min(64, width)
