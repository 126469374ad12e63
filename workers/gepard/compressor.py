"""Reference codes to a voice prefix: a few learnt queries read the clip (Q-Former).

The prefix is a constant of the voice. It enters the backbone as raw input embeddings before the text.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from workers.gepard.backbone import Mlp
from workers.gepard.config import CompressorConfig
from workers.gepard.frames import check_codes, dequantise

MAX_REFERENCE_FRAMES = 322
"""15 s, the longest reference seen in training; longer clips are used up to here."""

_NORM_EPS = 1e-6


class RMSNorm(nn.Module):
    """Ordinary RMSNorm: rms in float32, cast, then times weight (no 1 + weight, unlike the backbone's)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] to the same shape and dtype."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + _NORM_EPS)
        return wide.to(x.dtype) * self.weight


class Attention(nn.Module):
    """Multi-head attention without biases, positions or causality."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, queries: Tensor, source: Tensor, mask: Tensor | None = None) -> Tensor:
        """queries: [B, K, d], source: [B, T, d], mask: [B, T] bool, true where real, to [B, K, d]."""
        attended = functional.scaled_dot_product_attention(
            self._split(self.q_proj(queries)),
            self._split(self.k_proj(source)),
            self._split(self.v_proj(source)),
            attn_mask=None if mask is None else mask[:, None, None, :],
        )
        output: Tensor = self.out_proj(attended.transpose(1, 2).flatten(2))
        return output

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.heads, -1).transpose(1, 2)


class CompressorBlock(nn.Module):
    """Queries attend to each other, then to the clip, then an MLP."""

    def __init__(self, config: CompressorConfig) -> None:
        super().__init__()
        width = config.d_model
        self.norm_self = RMSNorm(width)
        self.self_attn = Attention(width, config.num_heads)
        self.norm_cross = RMSNorm(width)
        self.cross_attn = Attention(width, config.num_heads)
        self.norm_ffn = RMSNorm(width)
        self.ffn = Mlp(width, width * config.ffn_hidden_size_multiplier)

    def forward(self, queries: Tensor, features: Tensor, mask: Tensor | None) -> Tensor:
        """queries: [B, K, d] to [B, K, d]. The features are not normed."""
        normed = self.norm_self(queries)
        queries = queries + self.self_attn(normed, normed)
        queries = queries + self.cross_attn(self.norm_cross(queries), features, mask)
        output: Tensor = queries + self.ffn(self.norm_ffn(queries))
        return output


class SpeakerCompressor(nn.Module):
    """Codes of any length to `num_queries` prefix vectors."""

    def __init__(self, config: CompressorConfig, head_sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.head_sizes = head_sizes
        self.input_proj = nn.Linear(len(head_sizes), config.d_model)
        self.queries = nn.Parameter(torch.empty(config.num_queries, config.d_model))
        self.blocks = nn.ModuleList(CompressorBlock(config) for _ in range(config.num_layers))
        self.final_norm = RMSNorm(config.d_model)
        self.output_scale = nn.Parameter(torch.empty(1))

    def forward(self, codes: Tensor, mask: Tensor | None = None) -> Tensor:
        """Codes [B, T, C] int64 and mask [B, T] bool (true where real, None all) to [B, K, d]."""
        features = self.features(codes)
        queries = self.queries.expand(codes.shape[0], -1, -1)
        for block in self.blocks:
            queries = block(queries, features, mask)
        prefix: Tensor = self.final_norm(queries) * self.output_scale
        return prefix

    def features(self, codes: Tensor) -> Tensor:
        """What the queries read: [B, T, C] codes to [B, T, d]."""
        x = dequantise(codes, self.head_sizes).to(self.queries.dtype)
        positions = sinusoids(codes.shape[1], self.queries.shape[1], codes.device)
        features: Tensor = self.input_proj(x) + positions.to(x.dtype)
        return features

    def voice_prefix(self, codes: Tensor) -> Tensor:
        """Prefix [K, d] of one clip, codes [T, C] int64; at most MAX_REFERENCE_FRAMES are used.

        Raises ValueError when there is no frame or a code is outside its channel.
        """
        check_codes(codes, self.head_sizes)
        if not len(codes):
            raise ValueError("a reference has at least one frame")
        prefix: Tensor = self(codes[None, :MAX_REFERENCE_FRAMES])[0]
        return prefix


def sinusoids(length: int, width: int, device: torch.device) -> Tensor:
    """Positional table [length, width] float32: sine and cosine interleaved, base 10000."""
    exponents = torch.arange(0, width, 2, dtype=torch.float32, device=device) / width
    angles = torch.arange(length, dtype=torch.float32, device=device)[:, None] * 10000.0**-exponents
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)
