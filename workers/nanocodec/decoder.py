"""From codes to sound: a causal HiFi-GAN generator (Kong et al. 2020) without look-ahead.

Every layer needs its own inputs of the recent past and nothing else. Where they come from is the caller's
affair: `History` puts them in front of what a layer gets. With zeros the decoder does a whole sequence at
once; with what a stream left behind (streaming.py) it continues that stream. Both run the same layers.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from workers.nanocodec.archive import CodecArchive
from workers.nanocodec.config import HifiGanConfig
from workers.nanocodec.layers import Conv, HalfSnake, WeightScope, use_exact_convolutions
from workers.nanocodec.quantizer import Dequantizer, check_codes


@dataclass(frozen=True, slots=True)
class PastShape:
    """How much of its own input a layer must see again: the last `length` samples of `channels`."""

    channels: int
    length: int


class History(Protocol):
    """Supplier of each layer's past inputs."""

    def extend(self, layer: int, x: Tensor) -> Tensor:
        """Put the past of `layer` in front: [B, C, T] to [B, C, length + T].

        Called once a layer and step, `layer` indexing `CodecDecoder.pasts`.
        """


class CodecDecoder(nn.Module):
    """The decoder with weight norm folded; about 126 MB in float32. `.to()` sets device and precision.

    `pasts` says, by layer, what a stream must carry from step to step.
    """

    def __init__(self, archive: CodecArchive) -> None:
        super().__init__()
        use_exact_convolutions()
        config = archive.config.decoder
        scope = WeightScope(archive.tensors, "audio_decoder")
        pasts: list[PastShape] = []
        self._dequantizer = Dequantizer()
        self._pre = _CausalConv(scope.at("pre_conv"), pasts)
        self._stages = nn.ModuleList(
            _Stage(scope, stage, rate, config, pasts) for stage, rate in enumerate(config.rates)
        )
        self._post_activation = HalfSnake(scope.at("post_activation"))
        self._post = _CausalConv(scope.at("post_conv"), pasts)
        self.pasts = tuple(pasts)

    @property
    def device(self) -> torch.device:
        return self._pre.conv.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self._pre.conv.weight.dtype

    @torch.inference_mode()
    def decode(self, codes: Tensor) -> Tensor:
        """Codes [B, 32, T] to samples [B, 1024 T], float32 in [-1, 1]; the same without the batch axis.

        Sequences of different lengths may share a batch: what follows a sequence never changes it.
        Raises ValueError for an empty or wrong shape and for codes out of range.
        """
        check_codes(codes)
        if not codes.numel():
            raise ValueError("there are no codes to decode")
        if codes.dim() == 2:  # noqa: PLR2004
            return self.decode(codes.unsqueeze(0)).squeeze(0)
        samples: Tensor = self(codes.to(self.device), _Silence(self.pasts))
        return samples

    def forward(self, codes: Tensor, history: History) -> Tensor:
        """The next n frames: codes [B, 32, n] to samples [B, 1024 n], float32 in [-1, 1].

        The codes lie on the decoder's device. They are not checked: nothing here waits for the device.
        """
        x: Tensor = self._pre(self._dequantizer(codes).to(self.dtype), history)
        for stage in self._stages:
            x = stage(x, history)
        x = self._post(self._post_activation(x), history)
        return x.squeeze(1).to(torch.float32).clamp(-1.0, 1.0)


class _Silence:
    """The past of a stream that has not begun: zeros, as the codec was trained."""

    def __init__(self, pasts: tuple[PastShape, ...]) -> None:
        self._pasts = pasts

    def extend(self, layer: int, x: Tensor) -> Tensor:
        return functional.pad(x, (self._pasts[layer].length, 0))


class _CausalConv(nn.Module):
    def __init__(self, scope: WeightScope, pasts: list[PastShape], *, dilation: int = 1) -> None:
        super().__init__()
        self.conv = Conv(scope, dilation=dilation)
        self._layer = len(pasts)
        pasts.append(PastShape(channels=self.conv.weight.shape[1], length=self.conv.reach))

    def forward(self, x: Tensor, history: History) -> Tensor:
        output: Tensor = self.conv(history.extend(self._layer, x))
        return output


class _Upsampler(nn.Module):
    """Transposed convolution with kernel 2r and stride r: [B, C, T] to [B, C/2, r T].

    An output sample depends on the present input sample and the one before.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, scope: WeightScope, rate: int, pasts: list[PastShape]) -> None:
        super().__init__()
        self.register_buffer("weight", scope.weight())
        self.register_buffer("bias", scope.bias())
        self._rate = rate
        self._layer = len(pasts)
        pasts.append(PastShape(channels=self.weight.shape[0], length=1))

    def forward(self, x: Tensor, history: History) -> Tensor:
        extended = history.extend(self._layer, x)
        groups = self.bias.shape[0]
        output = functional.conv_transpose1d(extended, self.weight, self.bias, self._rate, groups=groups)
        # The first r samples belong to the past; the last r lack the input sample that follows.
        return output[..., self._rate : self._rate * extended.shape[-1]]


class _Block(nn.Module):
    """x + conv(act(dilated_conv(act(x))))."""

    def __init__(self, scope: WeightScope, dilation: int, pasts: list[PastShape]) -> None:
        super().__init__()
        self._input_activation = HalfSnake(scope.at("input_activation"))
        self._input = _CausalConv(scope.at("input_conv"), pasts, dilation=dilation)
        self._skip_activation = HalfSnake(scope.at("skip_activation"))
        self._skip = _CausalConv(scope.at("skip_conv"), pasts)

    def forward(self, x: Tensor, history: History) -> Tensor:
        inner = self._input(self._input_activation(x), history)
        output: Tensor = x + self._skip(self._skip_activation(inner), history)
        return output


class _Branch(nn.Module):
    """Blocks in series, with growing dilation."""

    def __init__(self, scope: WeightScope, dilations: tuple[int, ...], pasts: list[PastShape]) -> None:
        super().__init__()
        self._blocks = nn.ModuleList(
            _Block(scope.at(f"res_blocks.{block}"), dilation, pasts) for block, dilation in enumerate(dilations)
        )

    def forward(self, x: Tensor, history: History) -> Tensor:
        for block in self._blocks:
            x = block(x, history)
        return x


class _Stage(nn.Module):
    """Activation, upsampling, then the mean of parallel branches with different kernels."""

    def __init__(
        self, scope: WeightScope, stage: int, rate: int, config: HifiGanConfig, pasts: list[PastShape]
    ) -> None:
        super().__init__()
        self._activation = HalfSnake(scope.at(f"activations.{stage}"))
        self._upsampler = _Upsampler(scope.at(f"up_sample_conv_layers.{stage}"), rate, pasts)
        self._branches = nn.ModuleList(
            _Branch(scope.at(f"res_layers.{stage}.res_blocks.{branch}"), config.dilations, pasts)
            for branch in range(len(config.residual_kernels))
        )

    def forward(self, x: Tensor, history: History) -> Tensor:
        upsampled = self._upsampler(self._activation(x), history)
        total = torch.zeros_like(upsampled)
        for branch in self._branches:
            total += branch(upsampled, history)
        return total / len(self._branches)
