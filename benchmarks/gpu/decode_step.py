"""One decode step with nothing around it: the least that a step of the model costs in PyTorch.

Embedding of the last frames, all layers over a full static cache, heads and the fused sampler, whose tokens are
the next step's input. Every step does the same work: it writes and reads the last position of the context. What
the plain model has as several products is one here, and the layers are compiled; see workers/gepard/backbone.py
for the formulas.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional

from workers.gepard.backbone import DecoderLayer, rotate
from workers.gepard.model import GepardModel
from workers.gepard.sampling import SamplingParams
from workers.gepard.vllm_backend.sampler_kernel import FrameSampler
from workers.gepard.vllm_backend.slots import SlotParams, SlotTable

Attention = Literal["fused", "products"]
"""`fused`: PyTorch's scaled_dot_product_attention. `products`: two batched products and a softmax."""

FRAME0 = 1 << 20
"""The token of the frame store's first row."""

EOS = 0
_LANE_ROWS = 1024


class _Layer(NamedTuple):
    """Weights of a layer; products of one input joined."""

    input_norm: Tensor
    qkv: Tensor
    query_norm: Tensor
    key_norm: Tensor
    output: Tensor
    post_norm: Tensor
    gate_up: Tensor
    down: Tensor


class DecodeStep:
    """The step of `streams` streams, each with `context` positions of which this step computes the last.

    tokens: [streams] int64, the frames to read, then those drawn. logits: [streams, sum of heads + 1]. keys, values:
    of each layer [streams, kv heads, context, head_dim]. All at fixed addresses.
    """

    def __init__(
        self, model: GepardModel, streams: int, *, context: int, compiled: bool, attention: Attention = "fused"
    ) -> None:
        backbone = model.backbone.config
        device, dtype = model.device, model.backbone.embed_tokens.weight.dtype
        self._model = model
        self._layers = [_joined(cast("DecoderLayer", layer)) for layer in model.backbone.layers]
        shape = (streams, backbone.num_key_value_heads, context, backbone.head_dim)
        # Tensors of their own, written by index: so the compiler writes in place. Of one cache, or written by a slice,
        # it makes copies that cost several times the step.
        self.keys = [torch.randn(shape, dtype=dtype, device=device) for _ in self._layers]
        self.values = [torch.randn(shape, dtype=dtype, device=device) for _ in self._layers]
        self._last = torch.tensor([context - 1], device=device)
        self.frames = torch.zeros(
            (streams * _LANE_ROWS, len(model.config.head_sizes)), dtype=torch.uint8, device=device
        )
        self.tokens = torch.arange(streams, device=device) * _LANE_ROWS + FRAME0
        self.logits = torch.zeros((streams, sum(model.config.head_sizes) + 1), dtype=dtype, device=device)
        self.sampler = self._new_sampler(streams, context)
        self._rows = torch.arange(streams, dtype=torch.int32, device=device)
        self._lengths = torch.full((streams,), context, dtype=torch.int32, device=device)
        self._num_sampled = torch.zeros(streams, dtype=torch.int32, device=device)
        angles = ((context - 1) * model.backbone.inv_freq).repeat(2)
        self._cos, self._sin = angles.cos().to(dtype), angles.sin().to(dtype)
        self._attend = ATTENTIONS[attention]
        self._eps = backbone.rms_norm_eps
        parts: list[Callable[..., Any]] = [self._embed, self._layer, self._score]
        self._parts = [torch.compile(part, dynamic=False) for part in parts] if compiled else parts

    @property
    def bytes_read(self) -> int:
        """Weights of the layers and the cache: what a step must read, but for a few per cent."""
        weights = [tensor for layer in self._layers for tensor in layer]
        return sum(tensor.numel() * tensor.element_size() for tensor in (*weights, *self.keys, *self.values))

    def _new_sampler(self, streams: int, context: int) -> FrameSampler:
        slots = SlotTable(streams, self.frames.device)
        for stream in range(streams):
            params = SamplingParams(temperature=0.4, stop_threshold=1.0)
            slots.write(
                stream,
                SlotParams(
                    sampling=params,
                    seed=stream,
                    prompt_length=max(1, context - _LANE_ROWS // 2),
                    origin=stream * _LANE_ROWS,
                ),
            )
        slots.apply()
        return FrameSampler(
            head_sizes=self._model.config.head_sizes,
            slots=slots,
            frames=self.frames,
            lane_rows=_LANE_ROWS,
            frame0=FRAME0,
            eos=EOS,
        )

    @torch.inference_mode()
    def run(self) -> None:
        """The whole step."""
        embed, layer, score = self._parts
        x = embed(self.tokens)
        delta = torch.zeros_like(x)
        for weights, keys, values in zip(self._layers, self.keys, self.values, strict=True):
            x, delta = layer(x, delta, keys, values, weights)
        self.logits.copy_(score(x, delta))
        self.sample()

    def sample(self) -> None:
        """Its last part: logits to tokens."""
        self.sampler(self.logits, self._rows, self._lengths, self.tokens, self._num_sampled)

    def _embed(self, tokens: Tensor) -> Tensor:
        return self._model.frame_embedding(self.frames[tokens - FRAME0].to(torch.int32))

    def _layer(self, x: Tensor, delta: Tensor, keys: Tensor, values: Tensor, weights: _Layer) -> tuple[Tensor, Tensor]:
        """The layer before leaves its own last sum, x + delta, to this one, where it meets the norm."""
        streams, kv_heads, _, head_dim = keys.shape
        x = x + delta
        query_gate, key, value = functional.linear(self._norm(x, weights.input_norm), weights.qkv).split(
            [weights.qkv.shape[0] - 2 * kv_heads * head_dim, kv_heads * head_dim, kv_heads * head_dim], dim=-1
        )
        query, gate = query_gate.view(streams, -1, 2 * head_dim).chunk(2, dim=-1)
        query = rotate(self._norm(query, weights.query_norm), self._cos, self._sin)
        key = rotate(self._norm(key.view(streams, kv_heads, head_dim), weights.key_norm), self._cos, self._sin)
        keys[:, :, self._last] = key[:, :, None]
        values[:, :, self._last] = value.view(streams, kv_heads, 1, head_dim)
        # Head a reads key-value head a // group: the heads of a group are its rows.
        attended = self._attend(query.reshape(streams, kv_heads, -1, head_dim), keys, values)
        gated = attended.reshape(streams, -1) * torch.sigmoid(gate).flatten(1)
        x = x + functional.linear(gated, weights.output)
        first, second = functional.linear(self._norm(x, weights.post_norm), weights.gate_up).chunk(2, dim=-1)
        return x, functional.linear(functional.silu(first) * second, weights.down)

    def _score(self, x: Tensor, delta: Tensor) -> Tensor:
        return self._model.heads.proj(self._norm(x + delta, self._model.backbone.norm.weight))

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """backbone.ZeroCentredRMSNorm."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self._eps)
        return (wide * (1.0 + weight.float())).to(x.dtype)


def _joined(layer: DecoderLayer) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    return _Layer(
        input_norm=layer.input_layernorm.weight,
        qkv=torch.cat((attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight)),
        query_norm=attention.q_norm.weight,
        key_norm=attention.k_norm.weight,
        output=attention.o_proj.weight,
        post_norm=layer.post_attention_layernorm.weight,
        gate_up=torch.cat((mlp.gate_proj.weight, mlp.up_proj.weight)),
        down=mlp.down_proj.weight,
    )


def _fused(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, keys, values)


def _products(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    scores = (query @ keys.transpose(-1, -2)) * query.shape[-1] ** -0.5
    return scores.softmax(-1, dtype=torch.float32).to(query.dtype) @ values


ATTENTIONS: Mapping[Attention, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"fused": _fused, "products": _products}
"""Queries [streams, kv heads, group, D], keys and values [streams, kv heads, context, D] to the queries' shape."""


def captured(run: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """`run` as one CUDA graph, after warming up; on the CPU `run` itself."""
    if device.type == "cpu":
        return run
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay
