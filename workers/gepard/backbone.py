"""The decoder: Qwen3.5 text layers, all of full attention, over a flat list of rows.

A row is one position of one sequence. Rows of several sequences, or several positions of one, go through the
linear layers together; attention is done sequence by sequence, by `Span`. So what a row's result depends on
is its own sequence and the number of rows in the call (which chooses the kernels), never its neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from workers.gepard.config import BackboneConfig

RopeFreqDtype = Literal["bf16", "fp32"]
"""Precision of the rotary frequencies.

The training code cast them to bf16 together with the weights, so a bf16 model has most probably learnt the
rounded table; engines that build their table in float32 differ by 0.2 rad at distance 100, 1.6 at 900.
"""

ATTENTION_BLOCK = 64
"""Keys are read in multiples of this: a kernel is set up for a new shape only every 64 positions."""


class KeyValueCache:
    """Keys and values of one sequence: [layers, 2, key-value heads, capacity, head_dim].

    `capacity` is the number of positions rounded up to a block; unwritten positions are zero and masked.
    """

    def __init__(self, config: BackboneConfig, positions: int, like: Tensor) -> None:
        capacity = -(-positions // ATTENTION_BLOCK) * ATTENTION_BLOCK
        shape = (config.num_hidden_layers, 2, config.num_key_value_heads, capacity, config.head_dim)
        self.entries = like.new_zeros(shape)

    @property
    def capacity(self) -> int:
        """Positions it can hold."""
        return self.entries.shape[3]


@dataclass(frozen=True, slots=True)
class Span:
    """`length` consecutive rows of a call that are positions `start`.. of one sequence."""

    cache: KeyValueCache
    start: int
    length: int


class ZeroCentredRMSNorm(nn.Module):
    """x / rms(x) * (1 + weight), wholly in float32, cast back once."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] to the same shape and dtype."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (wide * (1.0 + self.weight.float())).to(x.dtype)


def inverse_frequencies(head_dim: int, theta: float, freq_dtype: RopeFreqDtype) -> Tensor:
    """theta^(-2j / head_dim), j = 0 .. head_dim/2 - 1, as float32 that `freq_dtype` may have rounded."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    frequencies = 1.0 / theta**exponents
    return frequencies.to(torch.bfloat16).float() if freq_dtype == "bf16" else frequencies


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding with half-split pairs. x: [N, heads, D]; cos, sin: [N, 1, D] in x's dtype."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class GatedAttention(nn.Module):
    """Grouped-query attention whose output is gated, elementwise, by a sigmoid of the same input."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        query, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, 2 * query, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv, bias=False)
        self.o_proj = nn.Linear(query, config.hidden_size, bias=False)
        self.q_norm = ZeroCentredRMSNorm(self.head_dim, config.rms_norm_eps)
        self.k_norm = ZeroCentredRMSNorm(self.head_dim, config.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, spans: Sequence[Span], layer: int) -> Tensor:
        """x: [N, hidden]; spans cover the first rows, the rest is padding."""
        rows = x.shape[0]
        # Each head owns 2 * head_dim consecutive rows of q_proj: its query, then its gate.
        query, gate = self.q_proj(x).view(rows, self.heads, 2 * self.head_dim).chunk(2, dim=-1)
        key = self.k_proj(x).view(rows, self.kv_heads, self.head_dim)
        value = self.v_proj(x).view(rows, self.kv_heads, self.head_dim)
        query = rotate(self.q_norm(query), cos, sin)
        key = rotate(self.k_norm(key), cos, sin)

        attended = torch.zeros_like(query)
        # All keys before any query: later rows of the same sequence may be spans of their own.
        row = 0
        for span in spans:
            entries = span.cache.entries[layer, :, :, span.start : span.start + span.length]
            entries[0] = key[row : row + span.length].transpose(0, 1)
            entries[1] = value[row : row + span.length].transpose(0, 1)
            row += span.length
        row = 0
        for span in spans:
            rows_of_span = slice(row, row + span.length)
            attended[rows_of_span] = self._attend(query[rows_of_span], span, layer)
            row += span.length
        output: Tensor = self.o_proj((attended * torch.sigmoid(gate)).reshape(rows, -1))
        return output

    def _attend(self, query: Tensor, span: Span, layer: int) -> Tensor:
        """query: [T, heads, D] to [T, heads, D]; float32 softmax, cast before it meets the values."""
        length, group = span.length, self.heads // self.kv_heads
        end = span.start + length
        read = -(-end // ATTENTION_BLOCK) * ATTENTION_BLOCK
        keys, values = span.cache.entries[layer, :, :, :read]
        # [kv heads, group * T, D]: head a reads key-value head a // group.
        grouped = query.transpose(0, 1).reshape(self.kv_heads, group * length, self.head_dim)
        scores = (grouped @ keys.transpose(1, 2)) * self.head_dim**-0.5
        scores = scores.view(self.kv_heads, group, length, read)
        position = torch.arange(span.start, end, device=query.device)
        future = torch.arange(read, device=query.device)[None, :] > position[:, None]
        weights = scores.masked_fill(future, -torch.inf).softmax(-1, dtype=torch.float32).to(query.dtype)
        attended = weights.view(self.kv_heads, group * length, read) @ values
        heads: Tensor = attended.view(self.heads, length, self.head_dim).transpose(0, 1)
        return heads


class Mlp(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] to [..., width]."""
        output: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return output


class DecoderLayer(nn.Module):
    """Attention and MLP, each behind its norm and added back."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.input_layernorm = ZeroCentredRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = GatedAttention(config)
        self.post_attention_layernorm = ZeroCentredRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = Mlp(config.hidden_size, config.intermediate_size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, spans: Sequence[Span], layer: int) -> Tensor:
        """x: [N, hidden] to [N, hidden]."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, spans, layer)
        output: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return output


class Backbone(nn.Module):
    """Text embedding, layers and the last norm; there is no lm_head."""

    inv_freq: Tensor

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = ZeroCentredRMSNorm(config.hidden_size, config.rms_norm_eps)

    def set_rope(self, freq_dtype: RopeFreqDtype, device: torch.device) -> None:
        """Compute the rotary frequencies; no checkpoint stores them. Call once before `forward`."""
        theta = self.config.rope_parameters.rope_theta
        frequencies = inverse_frequencies(self.config.head_dim, theta, freq_dtype)
        self.register_buffer("inv_freq", frequencies.to(device), persistent=False)

    def new_cache(self, positions: int) -> KeyValueCache:
        """An empty cache for one sequence of at most `positions` rows, in the model's dtype and device."""
        return KeyValueCache(self.config, positions, like=self.embed_tokens.weight)

    def forward(self, x: Tensor, spans: Sequence[Span]) -> Tensor:
        """Input embeddings [N, hidden] to normed states [N, hidden], and the spans' caches filled.

        The spans cover the first rows in their order; rows beyond them are padding, their states void.
        """
        cos, sin = self._rotation(x, spans)
        for index, layer in enumerate(self.layers):
            x = layer(x, cos, sin, spans, index)
        states: Tensor = self.norm(x)
        return states

    def _rotation(self, x: Tensor, spans: Sequence[Span]) -> tuple[Tensor, Tensor]:
        """cos and sin of every row's position, [N, 1, head_dim], float32 until the last cast."""
        positions = [span.start + offset for span in spans for offset in range(span.length)]
        positions += [0] * (x.shape[0] - len(positions))
        angles = torch.tensor(positions, dtype=torch.float32, device=x.device)[:, None] * self.inv_freq
        angles = torch.cat((angles, angles), dim=-1)[:, None]
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)
