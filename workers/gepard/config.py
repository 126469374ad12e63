"""`gepard_config.json`: what a checkpoint says of itself.

Every number that sizes a tensor is bounded here, so that a hostile file cannot ask for memory. Unknown keys
are tolerated: published files carry many that do not matter at inference.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shared.errors import CheckpointError

CONFIG_FILE = "gepard_config.json"
MAX_CONFIG_BYTES = 1 << 20
MAX_PARAMETERS = 8_000_000_000

MAX_REFERENCE_S = 15.0
"""Of a clip to clone; longer ones were never trained on and are cut, whoever made them."""

Dtype = Literal["bfloat16", "float32"]
"""What the model computes in."""

_DTYPE_ALIASES: dict[str, Dtype] = {
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float32": "float32",
    "fp32": "float32",
    "float": "float32",
}

Width = Annotated[int, Meta(ge=1, le=1 << 16)]
HeadCount = Annotated[int, Meta(ge=1, le=256)]
LayerCount = Annotated[int, Meta(ge=1, le=256)]
Vocabulary = Annotated[int, Meta(ge=1, le=1 << 21)]
TokenId = Annotated[int, Meta(ge=0, lt=1 << 21)]


class _Section(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the sections; keys that are not fields are ignored."""


class RopeParameters(_Section, frozen=True, kw_only=True):
    """Rotary embedding. A declared `mrope_section` is void: there is one position stream."""

    rope_theta: Annotated[float, Meta(gt=1.0, le=1e12)]
    rope_type: Literal["default"] = "default"


class BackboneConfig(_Section, frozen=True, kw_only=True):
    """A Qwen3.5 text decoder in which every layer is full attention."""

    vocab_size: Vocabulary
    hidden_size: Width
    intermediate_size: Width
    num_hidden_layers: LayerCount
    num_attention_heads: HeadCount
    num_key_value_heads: HeadCount
    head_dim: Annotated[int, Meta(ge=2, le=1024, multiple_of=2)]
    rms_norm_eps: Annotated[float, Meta(gt=0.0, lt=1.0)]
    rope_parameters: RopeParameters
    model_type: Literal["qwen3_5_text"] = "qwen3_5_text"
    hidden_act: Literal["silu"] = "silu"
    attention_bias: Literal[False] = False
    layer_types: Annotated[list[Literal["full_attention"]], Meta(max_length=256)] | None = None


class SpecialTokens(_Section, frozen=True, kw_only=True):
    """Control ids of the layout."""

    start_of_text: TokenId
    end_of_text: TokenId
    start_of_speech: TokenId
    end_of_speech: TokenId
    tts_pad: TokenId


class CodecConfig(_Section, frozen=True, kw_only=True):
    """The codec whose codes the model speaks; `num_layers` groups of len(`fsq_levels`) channels."""

    num_layers: Annotated[int, Meta(ge=1, le=64)]
    fsq_levels: Annotated[list[Annotated[int, Meta(ge=2, le=64)]], Meta(min_length=1, max_length=16)]
    frame_rate_hz: Annotated[float, Meta(gt=0.0, le=1000.0)]
    sample_rate: Annotated[int, Meta(ge=1, le=1_000_000)]
    codec_id: str


class RepetitionPolicy(_Section, frozen=True, kw_only=True):
    """How often a short text is repeated; see layout.repetitions."""

    enabled: bool = False
    target_text_tokens: Annotated[int, Meta(ge=1, le=1024)] = 16
    apply_below: Annotated[int, Meta(ge=0, le=1024)] = 13
    max_repeats: Annotated[int, Meta(ge=1, le=64)] = 8


class CompressorConfig(_Section, frozen=True, kw_only=True):
    """The network that turns reference codes into `num_queries` prefix vectors."""

    num_queries: Annotated[int, Meta(ge=1, le=256)]
    num_layers: LayerCount
    num_heads: HeadCount
    d_model: Width
    ffn_hidden_size_multiplier: Annotated[int, Meta(ge=1, le=64)]


class VoiceCloning(_Section, frozen=True, kw_only=True):
    """`compressor` is required where `enabled`."""

    enabled: bool = False
    compressor: CompressorConfig | None = None


class GepardConfig(_Section, frozen=True, kw_only=True):
    """The whole file. The order of `audio_heads` in the file is the order of the heads."""

    model_type: Literal["gepard"]
    backbone_config: BackboneConfig
    audio_heads: Annotated[dict[str, Annotated[int, Meta(ge=2, le=64)]], Meta(min_length=1, max_length=1024)]
    special_tokens: SpecialTokens
    codec: CodecConfig
    audio_embed_dim: Width = 32
    partial_rotary_factor: float = 1.0
    model_dtype: str = "bfloat16"
    text_repetition: RepetitionPolicy = RepetitionPolicy()
    voice_cloning: VoiceCloning = VoiceCloning()

    @property
    def head_sizes(self) -> tuple[int, ...]:
        """Values of each channel, in channel order."""
        return tuple(self.audio_heads.values())

    @property
    def dtype(self) -> Dtype:
        """`model_dtype` with its aliases resolved."""
        return _DTYPE_ALIASES[self.model_dtype.removeprefix("torch.")]

    @property
    def compressor(self) -> CompressorConfig | None:
        """None when the model has no voice cloning."""
        return self.voice_cloning.compressor if self.voice_cloning.enabled else None


def read_small_file(folder: Path, name: str, max_bytes: int) -> bytes:
    """One whole file of a checkpoint. Raises CheckpointError when absent, no regular file or too large."""
    path = folder / name
    # is_file() first: opening a FIFO or a device would block or never end.
    if not path.is_file():
        raise CheckpointError(f"{path}: missing, or not a regular file")
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from error
    if len(data) > max_bytes:
        raise CheckpointError(f"{path}: larger than {max_bytes} bytes")
    return data


def read_config(folder: Path) -> GepardConfig:
    """Read and check `gepard_config.json`.

    Raises CheckpointError that names the field and what it may be.
    """
    path = folder / CONFIG_FILE
    data = read_small_file(folder, CONFIG_FILE, MAX_CONFIG_BYTES)
    try:
        config = msgspec.json.decode(data, type=GepardConfig)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    problem = _inconsistency(config)
    if problem is not None:
        raise CheckpointError(f"{path}: {problem}")
    return config


def _inconsistency(config: GepardConfig) -> str | None:
    """What no single field shows."""
    return (
        _backbone_inconsistency(config.backbone_config) or _audio_inconsistency(config) or _voice_inconsistency(config)
    )


def _backbone_inconsistency(backbone: BackboneConfig) -> str | None:
    if backbone.num_attention_heads % backbone.num_key_value_heads:
        return (
            f"num_attention_heads {backbone.num_attention_heads} is no multiple of "
            f"num_key_value_heads {backbone.num_key_value_heads}"
        )
    if backbone.layer_types is not None and len(backbone.layer_types) != backbone.num_hidden_layers:
        return f"{len(backbone.layer_types)} layer_types for {backbone.num_hidden_layers} layers"
    return None


def _audio_inconsistency(config: GepardConfig) -> str | None:
    expected = tuple(config.codec.fsq_levels) * config.codec.num_layers
    if config.head_sizes != expected:
        return f"audio_heads {config.head_sizes} do not fit the codec's levels {expected}"
    if config.partial_rotary_factor != 1.0:
        return f"partial_rotary_factor {config.partial_rotary_factor}: only 1.0 is supported"
    if config.model_dtype.removeprefix("torch.") not in _DTYPE_ALIASES:
        return f"model_dtype {config.model_dtype!r}: use one of {', '.join(_DTYPE_ALIASES)}"
    vocab_size = config.backbone_config.vocab_size
    outside = [name for name in SpecialTokens.__struct_fields__ if getattr(config.special_tokens, name) >= vocab_size]
    if outside:
        return f"special_tokens outside the vocabulary of {vocab_size}: {', '.join(outside)}"
    return None


def _voice_inconsistency(config: GepardConfig) -> str | None:
    if not config.voice_cloning.enabled:
        return None
    compressor = config.voice_cloning.compressor
    if compressor is None:
        return "voice_cloning is enabled without a compressor"
    if compressor.d_model != config.backbone_config.hidden_size:
        return f"compressor d_model {compressor.d_model} is not hidden_size {config.backbone_config.hidden_size}"
    if compressor.d_model % compressor.num_heads or compressor.d_model % 2:
        return f"compressor d_model {compressor.d_model} does not split into {compressor.num_heads} heads"
    return None
