"""What encoder and decoder are made of. All tensors are [batch, channels, time].

Weights are inference constants: weight norm is folded when a layer is built, and nothing requires a gradient.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from workers.nanocodec.layout import DIRECTION, MAGNITUDE

LEAKY_SLOPE = 0.01
_SNAKE_EPSILON = 1e-9  # alpha is stored as it is, and may come near zero


class WeightScope:
    """The tensors of an archive below a dotted prefix."""

    def __init__(self, tensors: Mapping[str, NDArray[np.float32]], prefix: str) -> None:
        self._tensors = tensors
        self._prefix = prefix

    def at(self, name: str) -> "WeightScope":
        return WeightScope(self._tensors, f"{self._prefix}.{name}")

    def bias(self) -> Tensor:
        return self._tensor("conv.bias")

    def weight(self) -> Tensor:
        """g * v / ||v||, the norm taken over all dimensions but the first."""
        direction = self._tensor(f"conv.{DIRECTION}")
        norm = torch.linalg.vector_norm(direction, dim=(1, 2), keepdim=True)
        weight: Tensor = direction * (self._tensor(f"conv.{MAGNITUDE}") / norm)
        return weight

    def alpha(self) -> Tensor:
        return self._tensor("activation.snake_act.alpha")

    def _tensor(self, name: str) -> Tensor:
        tensor: Tensor = torch.from_numpy(self._tensors[f"{self._prefix}.{name}"])
        return tensor


class Conv(nn.Module):
    """Convolution without padding: the caller supplies the samples around."""

    weight: Tensor
    bias: Tensor

    def __init__(self, scope: WeightScope, *, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.register_buffer("weight", scope.weight())
        self.register_buffer("bias", scope.bias())
        self.stride = stride
        self.dilation = dilation

    @property
    def reach(self) -> int:
        """Samples besides the present one that an output sample depends on."""
        return (self.weight.shape[-1] - 1) * self.dilation

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv1d(x, self.weight, self.bias, self.stride, 0, self.dilation)


class HalfSnake(nn.Module):
    """Snake, x + sin(alpha x)^2 / alpha (Ziyin et al. 2020), on the first half of the channels; leaky ReLU on
    the rest. Of an odd number of channels the larger part is leaky.
    """

    alpha: Tensor
    inverse_alpha: Tensor

    def __init__(self, scope: WeightScope) -> None:
        super().__init__()
        alpha = scope.alpha()
        self.register_buffer("alpha", alpha)
        self.register_buffer("inverse_alpha", (alpha + _SNAKE_EPSILON).reciprocal())

    def forward(self, x: Tensor) -> Tensor:
        half = self.alpha.shape[1]
        periodic, leaky = x[:, :half], x[:, half:]
        return torch.cat(
            (
                periodic + self.inverse_alpha * torch.sin(self.alpha * periodic).square(),
                functional.leaky_relu(leaky, LEAKY_SLOPE),
            ),
            dim=1,
        )


def use_exact_convolutions() -> None:
    """Turn TF32 off for the convolutions of this process.

    With it, float32 convolutions on an NVIDIA GPU are right to three digits: codes flip and streaming is no
    longer equal to decoding at once. cuDNN's switch is global; setting it around each call would race between
    threads.
    """
    torch.backends.cudnn.allow_tf32 = False
