"""A codec small enough for Triton's interpreter, and tiles that leave it little to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from triton.runtime import interpreter

from workers.nanocodec.archive import CodecArchive
from workers.nanocodec.config import CodecConfig, HifiGanConfig
from workers.nanocodec.fused.tiles import Tile, column_unit, depth_unit
from workers.nanocodec.layout import MAGNITUDE, part_tensors

# Odd channels at the end as in the released codec; pasts longer than what a frame brings, and shorter ones.
_SMALL = HifiGanConfig(
    base_channels=40,
    rates=(16, 16, 4),
    in_kernel=7,
    out_kernel=3,
    residual_kernels=(1, 3, 5),
    dilations=(1, 5),
)


def small_archive(*, seed: int = 0, gain: float = 0.6) -> CodecArchive:
    """Random weights; a larger gain makes larger values."""
    config = CodecConfig(decoder=_SMALL, encoder=_SMALL)
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, spec in part_tensors(config, "audio_decoder").items():
        values = torch.randn(spec.shape, generator=generator)
        if name.endswith(MAGNITUDE):
            values = torch.full(spec.shape, gain)
        elif name.endswith("alpha"):
            values = 0.5 + torch.rand(spec.shape, generator=generator)
        elif name.endswith("bias"):
            values *= 0.02
        tensors[name] = values.numpy()
    return CodecArchive(config, tensors)


class LargeTiles:
    """The interpreter's time goes by the number of programs."""

    edge_elements = 1 << 15

    def conv(self, frames: int, width: int) -> Tile:
        return Tile(rows=1024, columns=column_unit(width), depth=depth_unit(width), warps=4, stages=1)


@contextmanager
def quick_interpreter() -> Iterator[None]:
    """Triton's interpreter without its checks of integer overflow, which take a third of its time."""
    builder = interpreter.interpreter_builder
    options = builder.options
    builder.options = replace(options, sanitize_overflow=False)
    try:
        yield
    finally:
        builder.options = options
