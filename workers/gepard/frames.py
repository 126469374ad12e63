"""Audio frames as the model reads them: 32 codes in, one embedding out; and the codec's packed form.

Channel 4 g + j is digit j of group g. Axis C is channels.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from workers.gepard.config import GepardConfig

_LAYER_NORM_EPS = 1e-5


class FrameEmbedding(nn.Module):
    """Table rows of all channels, concatenated, an MLP, a plain LayerNorm and one learnt scale."""

    offsets: Tensor

    def __init__(self, config: GepardConfig) -> None:
        super().__init__()
        hidden = config.backbone_config.hidden_size
        # One table for all channels, so that a frame is one gather.
        self.table = nn.Embedding(sum(config.head_sizes), config.audio_embed_dim)
        self.proj = nn.Sequential(
            nn.Linear(config.audio_embed_dim * len(config.head_sizes), hidden),
            nn.GELU(),  # the exact form, by erf
            nn.Linear(hidden, hidden),
        )
        self.scale = nn.Parameter(torch.empty(1))
        self.head_sizes = config.head_sizes

    def forward(self, codes: Tensor) -> Tensor:
        """Codes [N, C] int64 within the channels' sizes to input embeddings [N, hidden]."""
        y = self.proj(self.table(codes + self.offsets).flatten(-2))
        return functional.layer_norm(y, y.shape[-1:], eps=_LAYER_NORM_EPS) * self.scale

    def set_offsets(self, device: torch.device) -> None:
        """Compute the first row of each channel in the table. Call once before `forward`."""
        offsets = torch.tensor((0, *self.head_sizes[:-1])).cumsum(0)
        self.register_buffer("offsets", offsets.to(device), persistent=False)


def check_codes(codes: Tensor, head_sizes: Sequence[int]) -> None:
    """Raises ValueError unless `codes` is [n, C] with every value inside its channel."""
    if codes.shape[1:] != (len(head_sizes),):
        raise ValueError(f"codes must be [n, {len(head_sizes)}], got {list(codes.shape)}")
    sizes = torch.tensor(head_sizes, device=codes.device)
    if bool(((codes < 0) | (codes >= sizes)).any()):
        raise ValueError("codes outside their channel")


def unfold(packed: Tensor, levels: Sequence[int]) -> Tensor:
    """Packed codes [..., groups, T] to one code a channel [..., groups * len(levels), T], int64."""
    rest = packed.to(torch.int64)
    digits = []
    for level in levels:
        digits.append(rest % level)
        rest = rest // level
    return torch.stack(digits, dim=-2).flatten(-3, -2)


def dequantise(codes: Tensor, head_sizes: Sequence[int]) -> Tensor:
    """Codes [..., C] to the codec's values (c - L // 2) / (L // 2), float32 in -1..1."""
    half = torch.tensor(head_sizes, device=codes.device) // 2
    return (codes - half).to(torch.float32) / half
