"""In which precision the loaded weights can be decoded: float16 is eight times as exact as bfloat16, if all fits.

Values are stored between layers. Those of float16 end at 65,504; a decode in float32 shows how far these weights
go. The kernels clamp what goes further all the same.
"""

from dataclasses import dataclass
from typing import Literal

import structlog
import torch
from torch import Tensor, nn

from workers.nanocodec.archive import CodecArchive
from workers.nanocodec.config import LEVELS, NUM_GROUPS
from workers.nanocodec.decoder import CodecDecoder
from workers.nanocodec.layers import HalfSnake

Precision = Literal["float16", "bfloat16", "float32"]

PRECISIONS: dict[Precision, torch.dtype] = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
}

# Speech may go further than the codes tried here.
_HEADROOM = 16
_STREAMS = 4
_FRAMES = 25  # the decoder's memory

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Largest magnitudes seen: before and after activations, and of the weights."""

    sums: float
    activations: float
    weights: float

    @property
    def largest(self) -> float:
        return max(self.sums, self.activations, self.weights)


def choose_precision(archive: CodecArchive, *, device: torch.device) -> Precision:
    """float16 where a trial decode keeps well within its range, else bfloat16; logs what was seen."""
    seen = measure_range(CodecDecoder(archive).to(device))
    limit = torch.finfo(torch.float16).max / _HEADROOM
    # Written so that NaN is no reason for float16.
    precision: Precision = "float16" if seen.largest <= limit else "bfloat16"
    _log.info(
        "codec_precision_chosen",
        precision=precision,
        largest_sum=round(seen.sums, 3),
        largest_activation=round(seen.activations, 3),
        largest_weight=round(seen.weights, 3),
        limit=limit,
    )
    return precision


def measure_range(decoder: CodecDecoder) -> ValueRange:
    """Decode random frames, which go further than speech does, and look at every activation layer."""
    before: list[Tensor] = []
    after: list[Tensor] = []

    def record(_layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        before.append(inputs[0].abs().amax())
        after.append(output.abs().amax())

    hooks = [layer.register_forward_hook(record) for layer in decoder.modules() if isinstance(layer, HalfSnake)]
    try:
        decoder.decode(_trial_codes().to(decoder.device))
    finally:
        for hook in hooks:
            hook.remove()
    weights = [buffer.abs().amax() for name, buffer in decoder.named_buffers() if name.endswith("weight")]
    return ValueRange(*(float(torch.stack(values).max()) for values in (before, after, weights)))


def _trial_codes() -> Tensor:
    """[streams, 32, frames]: uniform, and one stream of the outermost codes only."""
    generator = torch.Generator().manual_seed(0)
    levels = torch.tensor(LEVELS * NUM_GROUPS).unsqueeze(-1)
    codes = (torch.rand(_STREAMS, len(LEVELS) * NUM_GROUPS, _FRAMES, generator=generator) * levels).to(torch.int64)
    codes[-1] = torch.where(codes[-1] * 2 < levels, 0, levels - 1)
    return codes
