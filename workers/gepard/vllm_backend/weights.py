"""Tensors under their published names into the joined parameters of the engine's network."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from torch import Tensor, nn

from workers.gepard.config import GepardConfig

_RENAMED = {"embed_tokens.": "embedding.embed_tokens.", "audio_embed_proj.": "embedding.frame_embedding.proj."}
_NOT_NEEDED = ("ref_compressor.", "null_prefix", "supcon_head.")
"""Voices come as prefixes: the compressor runs elsewhere."""


def load_weights(network: nn.Module, weights: Iterable[tuple[str, Tensor]], config: GepardConfig) -> set[str]:
    """Fill the parameters; the names of all of them, under `network.`. checkpoint.check_tensors comes before."""
    parameters = dict(network.named_parameters())
    places = _Places(config)
    for name, tensor in weights:
        if not name.startswith(_NOT_NEEDED):
            target, start = places.of(name)
            parameter = parameters[target].data
            source = tensor.reshape(1) if tensor.dim() == 0 else tensor
            parameter.narrow(0, start, source.shape[0]).copy_(source)
    return {f"network.{name}" for name in parameters}


class _Places:
    """Where a stored tensor goes: the parameter and its first row there."""

    def __init__(self, config: GepardConfig) -> None:
        backbone = config.backbone_config
        query, kv = backbone.num_attention_heads * backbone.head_dim, backbone.num_key_value_heads * backbone.head_dim
        self._channels = _starts(config.head_sizes)
        self._joined = {
            "self_attn.q_proj.": ("self_attn.qkv_proj.", 0),
            "self_attn.k_proj.": ("self_attn.qkv_proj.", 2 * query),
            "self_attn.v_proj.": ("self_attn.qkv_proj.", 2 * query + kv),
            "mlp.gate_proj.": ("mlp.gate_up_proj.", 0),
            "mlp.up_proj.": ("mlp.gate_up_proj.", backbone.intermediate_size),
        }

    def of(self, name: str) -> tuple[str, int]:
        """The place of a tensor that tensors.expected_tensors lists."""
        kind, _, rest = name.partition(".")
        match kind:
            case "audio_embeddings":
                return "embedding.frame_embedding.table.weight", self._channels[int(rest.split(".")[0])]
            case "codebook_heads":
                channel, _, leaf = rest.partition(".")
                return f"heads.{leaf}", self._channels[int(channel)]
            case "stop_head":
                return f"heads.{rest}", self._channels[-1]
            case "audio_embed_scale":
                return "embedding.frame_embedding.scale", 0
            case _:
                return self._backbone(name.removeprefix("model."))

    def _backbone(self, name: str) -> tuple[str, int]:
        for part, (joined, start) in self._joined.items():
            if part in name:
                return name.replace(part, joined), start
        prefix = next((prefix for prefix in _RENAMED if name.startswith(prefix)), "")
        return _RENAMED.get(prefix, "") + name.removeprefix(prefix), 0


def _starts(sizes: Sequence[int]) -> list[int]:
    """First row of each channel, and the end of the last."""
    return [0, *accumulate(sizes)]
