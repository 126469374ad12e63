"""The network as vLLM runs it: ids in, logits of all heads out, everything between inside one CUDA graph.

It is built from PyTorch's layers and vLLM's paged attention alone, not from vLLM's model files, whose classes
change from release to release. What the plain PyTorch model has as three products is one here (query with gate,
key and value; gate and up; all heads with the stop head).
"""

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from vllm.compilation.decorators import support_torch_compile
from vllm.config import VllmConfig
from vllm.model_executor.layers.attention.attention import Attention

from workers.gepard.backbone import ZeroCentredRMSNorm, inverse_frequencies, rotate
from workers.gepard.config import BackboneConfig, GepardConfig, read_config
from workers.gepard.frames import FrameEmbedding
from workers.gepard.vllm_backend.derived import EngineShape
from workers.gepard.vllm_backend.weights import load_weights


class TokenEmbedding(nn.Module):
    """Text, voice vectors and frames to input embeddings, told apart by id (token_space).

    store: codes [rows, C] uint8 of all frames. voices: [voices * voice_length, hidden]. Both are written by
    others between steps.
    """

    store: Tensor
    voices: Tensor

    def __init__(self, config: GepardConfig, shape: EngineShape) -> None:
        super().__init__()
        backbone, space = config.backbone_config, shape.space
        self.embed_tokens = nn.Embedding(backbone.vocab_size, backbone.hidden_size)
        self.frame_embedding = FrameEmbedding(config)
        self.frame_embedding.set_offsets(self.embed_tokens.weight.device)
        device = self.embed_tokens.weight.device
        store = torch.zeros((space.rows, len(config.head_sizes)), dtype=torch.uint8, device=device)
        voices = torch.zeros((space.voices * space.voice_length, backbone.hidden_size), device=device)
        self.register_buffer("store", store, persistent=False)
        self.register_buffer("voices", voices.to(self.embed_tokens.weight.dtype), persistent=False)
        self._first_voice = backbone.vocab_size
        self._first_frame = space.first_frame

    def forward(self, ids: Tensor) -> Tensor:
        """Ids [N] to embeddings [N, hidden]. All three kinds are looked up for every id, and one is taken."""
        is_frame = ids >= self._first_frame
        is_text = ids < self._first_voice
        text = self.embed_tokens(torch.where(is_text, ids, 0))
        voice = self.voices[torch.where(is_text | is_frame, 0, ids - self._first_voice)]
        codes = self.store[torch.where(is_frame, ids - self._first_frame, 0)]
        frame = self.frame_embedding(codes.to(torch.int32))
        return torch.where(is_frame[:, None], frame, torch.where(is_text[:, None], text, voice))


class PagedAttention(nn.Module):
    """Gated grouped-query attention (backbone.GatedAttention) over vLLM's paged cache."""

    def __init__(self, config: BackboneConfig, vllm_config: VllmConfig, prefix: str) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        query, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.sizes = [2 * query, kv, kv]
        self.qkv_proj = nn.Linear(config.hidden_size, sum(self.sizes), bias=False)
        self.o_proj = nn.Linear(query, config.hidden_size, bias=False)
        self.q_norm = ZeroCentredRMSNorm(self.head_dim, config.rms_norm_eps)
        self.k_norm = ZeroCentredRMSNorm(self.head_dim, config.rms_norm_eps)
        self.attention = Attention(
            self.heads,
            self.head_dim,
            self.head_dim**-0.5,
            num_kv_heads=self.kv_heads,
            cache_config=vllm_config.cache_config,
            prefix=f"{prefix}.attention",
        )

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x: [N, hidden] to the same; cos, sin: [N, 1, head_dim]."""
        rows = x.shape[0]
        query_gate, key, value = self.qkv_proj(x).split(self.sizes, dim=-1)
        query, gate = query_gate.view(rows, self.heads, 2 * self.head_dim).chunk(2, dim=-1)
        query = rotate(self.q_norm(query), cos, sin).flatten(1)
        key = rotate(self.k_norm(key.view(rows, self.kv_heads, self.head_dim)), cos, sin).flatten(1)
        attended = self.attention(query, key, value.contiguous())
        output: Tensor = self.o_proj(attended * torch.sigmoid(gate).flatten(1))
        return output


class FusedMlp(nn.Module):
    """down(silu(gate(x)) * up(x)) with one product for gate and up."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(width, 2 * inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[N, width] to the same."""
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        output: Tensor = self.down_proj(functional.silu(gate) * up)
        return output


class PagedLayer(nn.Module):
    """Attention and MLP, each behind its norm and added back."""

    def __init__(self, config: BackboneConfig, vllm_config: VllmConfig, prefix: str) -> None:
        super().__init__()
        self.input_layernorm = ZeroCentredRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = PagedAttention(config, vllm_config, f"{prefix}.self_attn")
        self.post_attention_layernorm = ZeroCentredRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = FusedMlp(config.hidden_size, config.intermediate_size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[N, hidden] to the same."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        output: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return output


@support_torch_compile
class GepardNetwork(nn.Module):
    """Embedding, layers, last norm and heads. `rotation`: cos and sin of every position, [2, positions, head_dim]."""

    rotation: Tensor

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        shape = EngineShape.of(vllm_config.model_config.hf_config)
        config = read_config(Path(vllm_config.model_config.model))
        backbone = config.backbone_config
        self.embedding = TokenEmbedding(config, shape)
        self.layers = nn.ModuleList(
            PagedLayer(backbone, vllm_config, f"{prefix}.layers.{index}") for index in range(backbone.num_hidden_layers)
        )
        self.norm = ZeroCentredRMSNorm(backbone.hidden_size, backbone.rms_norm_eps)
        self.heads = nn.Linear(backbone.hidden_size, sum(config.head_sizes) + 1)
        frequencies = inverse_frequencies(
            backbone.head_dim, backbone.rope_parameters.rope_theta, shape.rope_freq_dtype
        ).to(self.heads.weight.device)
        positions = torch.arange(vllm_config.model_config.max_model_len, dtype=torch.float32, device=frequencies.device)
        angles = (positions[:, None] * frequencies).repeat(1, 2)
        rotation = torch.stack((angles.cos(), angles.sin())).to(self.heads.weight.dtype)
        self.register_buffer("rotation", rotation, persistent=False)

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        intermediate_tensors: None = None,
        inputs_embeds: None = None,
    ) -> torch.Tensor:
        """Ids and positions [N] to logits [N, sum of head sizes + 1] in the model's dtype, stop logit last."""
        cos, sin = self.rotation[:, positions, None]
        x = self.embedding(input_ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        output: Tensor = self.heads(self.norm(x))
        return output


class GepardForTTS(nn.Module):
    """What vLLM's model runner calls. Its "hidden states" are the logits of all heads already."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        self.config = read_config(Path(vllm_config.model_config.model))
        self.network = GepardNetwork(vllm_config=vllm_config, prefix="network")

    @property
    def embedding(self) -> TokenEmbedding:
        """Where the frame store and the voice table are."""
        return self.network.embedding

    def get_model_state_cls(self) -> type:
        """The state of its requests, instead of vLLM's own."""
        from workers.gepard.vllm_backend.state import GepardModelState  # noqa: PLC0415  # imports the runner

        return GepardModelState

    def embed_input_ids(self, input_ids: Tensor) -> Tensor:
        """Ids [N] to embeddings [N, hidden]."""
        embeddings: Tensor = self.embedding(input_ids)
        return embeddings

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        intermediate_tensors: None = None,
        inputs_embeds: None = None,
    ) -> torch.Tensor:
        """See GepardNetwork."""
        output: Tensor = self.network(input_ids, positions, intermediate_tensors, inputs_embeds)
        return output

    def compute_logits(self, hidden_states: Tensor) -> Tensor:
        """The rows the runner has picked, as they are."""
        return hidden_states

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
        """Load a checkpoint's tensors under their published names; the names of the parameters set."""
        return load_weights(self.network, weights, self.config)
