"""The tensors a checkpoint must hold, as the configuration says: names as stored, shapes `[out, in]`."""

from collections.abc import Iterator

from workers.gepard.config import CompressorConfig, GepardConfig

Shape = tuple[int, ...]

TRAINING_ONLY = "supcon_head."
"""Prefix of tensors that serve a training loss; present or not, they are not read."""

SCALARS = frozenset({"audio_embed_scale", "ref_compressor.output_scale"})
"""Single values that published checkpoints store as `[1]` or as `[]`."""


def expected_tensors(config: GepardConfig) -> dict[str, Shape]:
    """Every tensor needed at inference. Scalars are given as `[1]`."""
    shapes = dict(_backbone(config))
    shapes.update(_audio(config))
    if config.compressor is not None:
        shapes.update(_compressor(config.compressor, num_channels=len(config.head_sizes)))
    return shapes


def _backbone(config: GepardConfig) -> Iterator[tuple[str, Shape]]:
    backbone = config.backbone_config
    hidden, inner, head_dim = backbone.hidden_size, backbone.intermediate_size, backbone.head_dim
    query, kv = backbone.num_attention_heads * head_dim, backbone.num_key_value_heads * head_dim
    yield "model.embed_tokens.weight", (backbone.vocab_size, hidden)
    for index in range(backbone.num_hidden_layers):
        layer = f"model.layers.{index}"
        yield f"{layer}.input_layernorm.weight", (hidden,)
        yield f"{layer}.self_attn.q_proj.weight", (2 * query, hidden)  # query and gate
        yield f"{layer}.self_attn.k_proj.weight", (kv, hidden)
        yield f"{layer}.self_attn.v_proj.weight", (kv, hidden)
        yield f"{layer}.self_attn.q_norm.weight", (head_dim,)
        yield f"{layer}.self_attn.k_norm.weight", (head_dim,)
        yield f"{layer}.self_attn.o_proj.weight", (hidden, query)
        yield f"{layer}.post_attention_layernorm.weight", (hidden,)
        yield f"{layer}.mlp.gate_proj.weight", (inner, hidden)
        yield f"{layer}.mlp.up_proj.weight", (inner, hidden)
        yield f"{layer}.mlp.down_proj.weight", (hidden, inner)
    yield "model.norm.weight", (hidden,)


def _audio(config: GepardConfig) -> Iterator[tuple[str, Shape]]:
    hidden, dim = config.backbone_config.hidden_size, config.audio_embed_dim
    for channel, size in enumerate(config.head_sizes):
        yield f"audio_embeddings.{channel}.weight", (size, dim)
        yield f"codebook_heads.{channel}.weight", (size, hidden)
        yield f"codebook_heads.{channel}.bias", (size,)
    yield "audio_embed_proj.0.weight", (hidden, dim * len(config.head_sizes))
    yield "audio_embed_proj.0.bias", (hidden,)
    yield "audio_embed_proj.2.weight", (hidden, hidden)
    yield "audio_embed_proj.2.bias", (hidden,)
    yield "audio_embed_scale", (1,)
    yield "stop_head.weight", (1, hidden)
    yield "stop_head.bias", (1,)


def _compressor(config: CompressorConfig, num_channels: int) -> Iterator[tuple[str, Shape]]:
    width, inner = config.d_model, config.d_model * config.ffn_hidden_size_multiplier
    yield "ref_compressor.input_proj.weight", (width, num_channels)
    yield "ref_compressor.input_proj.bias", (width,)
    yield "ref_compressor.queries", (config.num_queries, width)
    for index in range(config.num_layers):
        block = f"ref_compressor.blocks.{index}"
        for norm in ("norm_self", "norm_cross", "norm_ffn"):
            yield f"{block}.{norm}.weight", (width,)
        for attention in ("self_attn", "cross_attn"):
            for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
                yield f"{block}.{attention}.{projection}.weight", (width, width)
        yield f"{block}.ffn.gate_proj.weight", (inner, width)
        yield f"{block}.ffn.up_proj.weight", (inner, width)
        yield f"{block}.ffn.down_proj.weight", (width, inner)
    yield "ref_compressor.final_norm.weight", (width,)
    yield "ref_compressor.output_scale", (1,)
    yield "null_prefix", (config.num_queries, width)
