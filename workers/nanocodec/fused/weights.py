"""Weights in the order in which the kernels read them, padded with zeros.

Padded channels then stay zero by themselves: their weights, biases and alphas are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from workers.nanocodec.archive import CodecArchive
from workers.nanocodec.config import LEVELS, NUM_GROUPS
from workers.nanocodec.fused.plan import Plan, StagePlan, padded
from workers.nanocodec.fused.tiles import column_unit, depth_unit
from workers.nanocodec.layers import HalfSnake, WeightScope

_ALIGNMENT = 32  # elements; 16-byte loads need 8 in half precision


@dataclass(frozen=True, slots=True)
class ConvWeights:
    """Offsets: `weights` [tap, depth, columns] into the half-precision values, `bias` [columns] into the others."""

    weights: int
    bias: int


@dataclass(frozen=True, slots=True)
class Activation:
    """Offsets of alpha and 1 / alpha, [columns]; zeros for the leaky channels."""

    alpha: int
    inverse: int


@dataclass(frozen=True, slots=True)
class StageWeights:
    """[block][branch], as in StagePlan. The last block's second convolutions are one, in `last`.

    `upsampler.weights` [2 rate, 2, columns] lies among the float32 values, `output` is what follows the stage.
    """

    upsampler: ConvWeights
    dilated: tuple[tuple[ConvWeights, ...], ...]
    skips: tuple[tuple[ConvWeights, ...], ...]
    last: ConvWeights
    input_activations: tuple[tuple[Activation, ...], ...]
    skip_activations: tuple[tuple[Activation, ...], ...]
    output: Activation


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """`matrices` in the precision of the decoder, `vectors` in float32, and what is where."""

    matrices: Tensor
    vectors: Tensor
    pre: ConvWeights
    pre_activation: Activation
    stages: tuple[StageWeights, ...]
    post: ConvWeights


def pack_weights(archive: CodecArchive, plan: Plan, *, dtype: torch.dtype, device: torch.device) -> PackedWeights:
    """Fold weight norm, reorder, convert."""
    scope = WeightScope(archive.tensors, "audio_decoder")
    matrices, vectors = _Pile(), _Pile()
    pre_scope = scope.at("pre_conv")
    # Codes enter as whole numbers, code - half, which every precision holds exactly; latents are 1 / half of that.
    halves = torch.tensor([levels // 2 for levels in LEVELS] * NUM_GROUPS, dtype=torch.float32)
    pre_weight = pre_scope.weight() / halves.unsqueeze(-1)
    width = padded(plan.channels)
    pre = ConvWeights(matrices.add(_matrix(pre_weight)), vectors.add(_columns(pre_scope.bias(), width)))
    stages = tuple(_stage(scope, stage, plan, matrices, vectors) for stage in plan.stages)
    last_width = plan.stages[-1].width
    post_scope = scope.at("post_conv")
    post_weight = functional.pad(post_scope.weight()[0].T, (0, last_width - plan.stages[-1].channels))
    post = ConvWeights(vectors.add(post_weight), vectors.add(post_scope.bias()))
    pre_activation = _activation(scope.at("activations.0"), width, vectors)
    return PackedWeights(
        matrices.tensor().to(dtype).to(device),
        vectors.tensor().to(device),
        pre,
        pre_activation,
        stages,
        post,
    )


def _stage(scope: WeightScope, stage: StagePlan, plan: Plan, matrices: "_Pile", vectors: "_Pile") -> StageWeights:
    width = stage.width
    up_scope = scope.at(f"up_sample_conv_layers.{stage.index}")
    # [2 channels, 1, 2 rate] to [2 rate, 2, channels]: which of the two inputs of an output channel.
    up_weight = up_scope.weight().reshape(stage.channels, 2, 2 * stage.rate).permute(2, 1, 0)
    upsampler = ConvWeights(vectors.add(_columns(up_weight, width)), vectors.add(_columns(up_scope.bias(), width)))

    blocks = range(len(plan.dilations))
    scopes = [
        [scope.at(f"res_layers.{stage.index}.res_blocks.{branch}.res_blocks.{block}") for branch in plan.branches]
        for block in blocks
    ]

    def convs(name: str, some: Sequence[Sequence[WeightScope]]) -> tuple[tuple[ConvWeights, ...], ...]:
        return tuple(
            tuple(
                ConvWeights(
                    matrices.add(_matrix(branch.at(name).weight())),
                    vectors.add(_columns(branch.at(name).bias(), width)),
                )
                for branch in block
            )
            for block in some
        )

    def activations(name: str) -> tuple[tuple[Activation, ...], ...]:
        return tuple(tuple(_activation(branch.at(name), width, vectors) for branch in block) for block in scopes)

    last_scopes = [branch.at("skip_conv") for branch in scopes[-1]]
    last = ConvWeights(
        matrices.add(torch.cat([_matrix(branch.weight()) for branch in last_scopes])),
        vectors.add(_columns(torch.stack([branch.bias() for branch in last_scopes]).sum(0), width)),
    )
    is_last = stage.index == len(plan.stages) - 1
    return StageWeights(
        upsampler=upsampler,
        dilated=convs("input_conv", scopes),
        skips=convs("skip_conv", scopes[:-1]),
        last=last,
        input_activations=activations("input_activation"),
        skip_activations=activations("skip_activation"),
        output=_activation(
            scope.at("post_activation" if is_last else f"activations.{stage.index + 1}"), width, vectors
        ),
    )


def _activation(scope: WeightScope, width: int, vectors: "_Pile") -> Activation:
    layer = HalfSnake(scope)
    return Activation(
        vectors.add(_columns(layer.alpha.flatten(), width)), vectors.add(_columns(layer.inverse_alpha.flatten(), width))
    )


def _matrix(weight: Tensor) -> Tensor:
    """[outputs, inputs, taps] to [taps, depth, columns]."""
    outputs, inputs, _ = weight.shape
    depth = depth_of(padded(inputs))
    return functional.pad(weight.permute(2, 1, 0), (0, columns_of(padded(outputs)) - outputs, 0, depth - inputs))


def _columns(values: Tensor, width: int) -> Tensor:
    return functional.pad(values, (0, columns_of(width) - values.shape[-1]))


def columns_of(width: int) -> int:
    """Columns of the matrices and vectors of a layer of `width` padded channels."""
    unit = column_unit(width)
    return -(-width // unit) * unit


def depth_of(width: int) -> int:
    """Rows of one tap of a matrix that reads `width` padded channels."""
    unit = depth_unit(width)
    return -(-width // unit) * unit


class _Pile:
    """Tensors one behind the other."""

    def __init__(self) -> None:
        self._parts: list[Tensor] = []
        self._end = 0

    def add(self, values: Tensor) -> int:
        """Returns the offset."""
        offset = self._end
        flat = values.flatten()
        size = -(-flat.numel() // _ALIGNMENT) * _ALIGNMENT
        self._parts.append(functional.pad(flat, (0, size - flat.numel())))
        self._end += size
        return offset

    def tensor(self) -> Tensor:
        return torch.cat(self._parts)
