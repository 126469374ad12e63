"""Finite scalar quantisation (Mentzer et al. 2023), in groups, as the codec uses it.

A frame is 32 scalar codes: 8 groups of 4, with 8, 7, 6 and 6 levels. Packed, a group is one id from 0 to
2015, in which the first scalar is the least significant digit. Time is the last axis everywhere: codes are
[..., 32, T], ids [..., 8, T].
"""

from itertools import accumulate
from operator import mul

import torch
from torch import Tensor, nn

from workers.nanocodec.config import CODES_PER_FRAME, IDS_PER_GROUP, LEVELS, NUM_GROUPS

_DIGITS = len(LEVELS)
_BASE = tuple(accumulate((1, *LEVELS[:-1]), mul))  # 1, 8, 56, 336
_HALF = tuple(levels // 2 for levels in LEVELS)  # the code of latent 0
_MARGIN = 1e-3  # keeps tanh off the rounding border of the outermost levels


def pack(codes: Tensor) -> Tensor:
    """Codes [..., 32, T] to ids [..., 8, T], int64. Raises ValueError for codes out of range."""
    check_codes(codes)
    # In integers: floats of half precision cannot count to 2015.
    digits = codes.to(torch.int64).reshape(*codes.shape[:-2], NUM_GROUPS, _DIGITS, codes.shape[-1])
    ids: Tensor = (digits * _column(_BASE, codes.device)).sum(-2)
    return ids


def unpack(ids: Tensor) -> Tensor:
    """Ids [..., 8, T] to codes [..., 32, T], int64. Raises ValueError for ids out of range.

    Special tokens and padding (-1) are out of range: unchecked they would turn into valid-looking codes.
    """
    if ids.is_floating_point() or ids.dim() < 2 or ids.shape[-2] != NUM_GROUPS:  # noqa: PLR2004
        raise ValueError(f"ids are integers of shape [..., {NUM_GROUPS}, T], got {_shown(ids)}")
    if ids.numel() and not bool(((ids >= 0) & (ids < IDS_PER_GROUP)).all()):
        raise ValueError(f"ids lie in 0..{IDS_PER_GROUP - 1}, got {int(ids.min())} to {int(ids.max())}")
    whole = ids.to(torch.int64).unsqueeze(-2)
    digits = whole // _column(_BASE, ids.device) % _column(LEVELS, ids.device)
    return digits.flatten(-3, -2)


class Dequantizer(nn.Module):
    """Codes [..., 32, T] to latents [..., 32, T], float32 from -1 to 1.

    A module so that its constants move to the device once: building them in a call would wait for the device
    and could not be captured in a CUDA graph. The range is not checked for the same reason.
    """

    zero_code: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("zero_code", _column(_HALF * NUM_GROUPS, torch.device("cpu")))

    def forward(self, codes: Tensor) -> Tensor:
        return (codes - self.zero_code).to(torch.float32) / self.zero_code


def quantize(latents: Tensor) -> Tensor:
    """Encoder output [..., 32, T] to the nearest codes [..., 32, T], int64.

    Computed in float32. Raises ValueError for values that are not finite.
    """
    values = latents.to(torch.float32)
    if not bool(torch.isfinite(values).all()):
        raise ValueError("latents are not finite")
    levels = _column(LEVELS * NUM_GROUPS, latents.device)
    scale = (levels - 1) / 2 * (1 - _MARGIN)
    # An even number of levels has no middle: the grid moves half a step, and tanh back so that 0 stays 0.
    offset = torch.where(levels % 2 == 0, 0.5, 0.0)
    rounded = (scale * (values + (offset / scale).tan()).tanh() - offset).round()
    return rounded.to(torch.int64) + _column(_HALF * NUM_GROUPS, latents.device)


def check_codes(codes: Tensor) -> None:
    """Raise ValueError unless `codes` are integers [..., 32, T], each within its levels.

    Waits for the device if the codes are on one.
    """
    if codes.is_floating_point() or codes.dim() < 2 or codes.shape[-2] != CODES_PER_FRAME:  # noqa: PLR2004
        raise ValueError(f"codes are integers of shape [..., {CODES_PER_FRAME}, T], got {_shown(codes)}")
    outside = (codes < 0) | (codes >= _column(LEVELS * NUM_GROUPS, codes.device))
    if bool(outside.any()):
        *_, code, frame = outside.nonzero()[0].tolist()
        levels = LEVELS[code % _DIGITS]
        raise ValueError(f"code {code} of frame {frame} is outside 0 to {levels - 1}")


def _column(values: tuple[int, ...], device: torch.device) -> Tensor:
    """The constants as [len(values), 1], to broadcast over time."""
    return torch.tensor(values, device=device).unsqueeze(-1)


def _shown(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"
