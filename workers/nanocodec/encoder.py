"""From sound to codes: the HiFi-GAN generator turned round, on the raw waveform. Not causal."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from workers.nanocodec.archive import CodecArchive
from workers.nanocodec.config import SAMPLES_PER_FRAME, HifiGanConfig
from workers.nanocodec.layers import LEAKY_SLOPE, Conv, WeightScope, use_exact_convolutions
from workers.nanocodec.quantizer import quantize


class CodecEncoder(nn.Module):
    """The encoder with weight norm folded; about 124 MB. Keep it in float32: half precision flips codes."""

    def __init__(self, archive: CodecArchive) -> None:
        super().__init__()
        use_exact_convolutions()
        config = archive.config.encoder
        scope = WeightScope(archive.tensors, "audio_encoder")
        self._pre = _EdgePaddedConv(scope.at("pre_conv"))
        self._stages = nn.ModuleList(_Stage(scope, stage, rate, config) for stage, rate in enumerate(config.rates))
        self._post = _EdgePaddedConv(scope.at("post_conv"))

    @torch.inference_mode()
    def encode(self, samples: Tensor) -> Tensor:
        """Samples [T] at 22,050 Hz, float in [-1, 1], to codes [32, ceil(T / 1024)], int64.

        One clip at a time: in a padded batch a shorter clip would see zeros where alone it sees its last
        sample repeated, and get other codes. Raises ValueError for an empty clip, another shape, and samples
        that are not finite.
        """
        if samples.dim() != 1 or not samples.numel() or not samples.is_floating_point():
            raise ValueError(f"samples are floats of shape [T], got {samples.dtype} {list(samples.shape)}")
        if not bool(torch.isfinite(samples).all()):
            raise ValueError("samples are not finite")
        return quantize(self(samples.to(self._pre.conv.weight))).squeeze(0)

    def forward(self, samples: Tensor) -> Tensor:
        """Samples [T] to latents before quantisation [1, 32, frames]."""
        missing = -samples.shape[0] % SAMPLES_PER_FRAME
        x = self._pre(functional.pad(samples, (0, missing))[None, None])
        for stage in self._stages:
            x = stage(x)
        latents: Tensor = self._post(functional.leaky_relu(x, LEAKY_SLOPE))
        return latents


class _EdgePaddedConv(nn.Module):
    """Convolution that sees the first and last sample repeated outside; keeps the length at stride 1."""

    def __init__(self, scope: WeightScope, *, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv = Conv(scope, stride=stride, dilation=dilation)
        # At stride r the kernel is 2r wide; this makes T inputs, a multiple of r, give T / r outputs.
        self._padding = (self.conv.reach - stride + 2) // 2

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.conv(functional.pad(x, (self._padding, self._padding), mode="replicate"))
        return output


class _Block(nn.Module):
    """x + conv(act(dilated_conv(act(x))))."""

    def __init__(self, scope: WeightScope, dilation: int) -> None:
        super().__init__()
        self._input = _EdgePaddedConv(scope.at("input_conv"), dilation=dilation)
        self._skip = _EdgePaddedConv(scope.at("skip_conv"))

    def forward(self, x: Tensor) -> Tensor:
        inner = self._input(functional.leaky_relu(x, LEAKY_SLOPE))
        output: Tensor = x + self._skip(functional.leaky_relu(inner, LEAKY_SLOPE))
        return output


class _Branch(nn.Module):
    """Blocks in series, with growing dilation."""

    def __init__(self, scope: WeightScope, dilations: tuple[int, ...]) -> None:
        super().__init__()
        self._blocks = nn.ModuleList(
            _Block(scope.at(f"res_blocks.{block}"), dilation) for block, dilation in enumerate(dilations)
        )

    def forward(self, x: Tensor) -> Tensor:
        for block in self._blocks:
            x = block(x)
        return x


class _Stage(nn.Module):
    """The mean of parallel branches with different kernels, then activation and a strided convolution."""

    def __init__(self, scope: WeightScope, stage: int, rate: int, config: HifiGanConfig) -> None:
        super().__init__()
        self._branches = nn.ModuleList(
            _Branch(scope.at(f"res_layers.{stage}.res_blocks.{branch}"), config.dilations)
            for branch in range(len(config.residual_kernels))
        )
        self._downsampler = _EdgePaddedConv(scope.at(f"down_sample_conv_layers.{stage}"), stride=rate)

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for branch in self._branches:
            total += branch(x)
        output: Tensor = self._downsampler(functional.leaky_relu(total / len(self._branches), LEAKY_SLOPE))
        return output
