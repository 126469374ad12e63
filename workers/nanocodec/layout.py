"""Names, shapes and dtypes of the tensors of a codec archive, derived from its configuration.

Convolutions are stored with weight norm (Salimans & Kingma 2016) as PyTorch's parametrisation spells it:
`original0` is the magnitude g, one value for each index of dimension 0; `original1` is the direction v.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, assert_never

from workers.nanocodec.config import CODES_PER_FRAME, LEVELS, NUM_GROUPS, CodecConfig, HifiGanConfig

Part = Literal["audio_decoder", "audio_encoder"]

MAGNITUDE = "parametrizations.weight.original0"
DIRECTION = "parametrizations.weight.original1"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What one stored tensor must be."""

    shape: tuple[int, ...]
    dtype: Literal["float32", "int32"] = "float32"


def part_tensors(config: CodecConfig, part: Part) -> dict[str, TensorSpec]:
    """Every tensor of the decoder or the encoder by its full name."""
    match part:
        case "audio_decoder":
            tensors = _decoder(config.decoder)
        case "audio_encoder":
            tensors = _encoder(config.encoder)
        case _:
            assert_never(part)
    return {f"{part}.{name}": spec for name, spec in tensors}


def quantizer_tensors() -> dict[str, TensorSpec]:
    """The constants of the quantiser, one pair for each group."""
    spec = TensorSpec((1, len(LEVELS), 1), "int32")
    return {
        f"vector_quantizer.fsqs.{group}.{name}": spec
        for group in range(NUM_GROUPS)
        for name in ("num_levels", "dim_base_index")
    }


def _decoder(config: HifiGanConfig) -> Iterator[tuple[str, TensorSpec]]:
    channels = config.base_channels
    yield from _conv("pre_conv", CODES_PER_FRAME, channels, config.in_kernel)
    for stage, rate in enumerate(config.rates):
        yield from _half_snake(f"activations.{stage}", channels)
        halved = channels // 2
        name = f"up_sample_conv_layers.{stage}"
        # Transposed and grouped: dimension 0 counts the input channels, two of which feed one output channel.
        yield from _weight_norm(name, (channels, 1, 2 * rate), num_outputs=halved)
        channels = halved
        yield from _residual_layer(f"res_layers.{stage}", channels, config, half_snake=True)
    yield from _half_snake("post_activation", channels)
    yield from _conv("post_conv", channels, 1, config.out_kernel)


def _encoder(config: HifiGanConfig) -> Iterator[tuple[str, TensorSpec]]:
    channels = config.base_channels
    yield from _conv("pre_conv", 1, channels, config.in_kernel)
    for stage, rate in enumerate(config.rates):
        yield from _residual_layer(f"res_layers.{stage}", channels, config, half_snake=False)
        yield from _conv(f"down_sample_conv_layers.{stage}", channels, 2 * channels, 2 * rate)
        channels *= 2
    yield from _conv("post_conv", channels, CODES_PER_FRAME, config.out_kernel)


def _residual_layer(
    name: str, channels: int, config: HifiGanConfig, *, half_snake: bool
) -> Iterator[tuple[str, TensorSpec]]:
    for branch, kernel in enumerate(config.residual_kernels):
        for block in range(len(config.dilations)):
            for half in ("input", "skip"):
                prefix = f"{name}.res_blocks.{branch}.res_blocks.{block}.{half}"
                if half_snake:
                    yield from _half_snake(f"{prefix}_activation", channels)
                yield from _conv(f"{prefix}_conv", channels, channels, kernel)


def _half_snake(name: str, channels: int) -> Iterator[tuple[str, TensorSpec]]:
    yield f"{name}.activation.snake_act.alpha", TensorSpec((1, channels // 2, 1))


def _conv(name: str, num_inputs: int, num_outputs: int, kernel: int) -> Iterator[tuple[str, TensorSpec]]:
    yield from _weight_norm(name, (num_outputs, num_inputs, kernel), num_outputs=num_outputs)


def _weight_norm(name: str, weight: tuple[int, int, int], *, num_outputs: int) -> Iterator[tuple[str, TensorSpec]]:
    yield f"{name}.conv.bias", TensorSpec((num_outputs,))
    yield f"{name}.conv.{MAGNITUDE}", TensorSpec((weight[0], 1, 1))
    yield f"{name}.conv.{DIRECTION}", TensorSpec(weight)
