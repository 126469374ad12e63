"""The folder vLLM is pointed at: the checkpoint's weights behind a config.json that vLLM reads right.

The checkpoint's own config.json is for other tools. Engines trip over what it declares (a rotary section for
three position streams, a hybrid architecture), and it knows nothing of audio.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.gepard.backbone import RopeFreqDtype
from workers.gepard.checkpoint import WEIGHTS_FILE
from workers.gepard.config import CONFIG_FILE, GepardConfig
from workers.gepard.vllm_backend.plugin import ARCHITECTURE
from workers.gepard.vllm_backend.token_space import TokenSpace

_KEY = "gepard_engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineShape:
    """What the model must know of the engine around it."""

    space: TokenSpace
    rope_freq_dtype: RopeFreqDtype

    @classmethod
    def of(cls, hf_config: Any) -> "EngineShape":  # noqa: ANN401  # a transformers class
        """Read it back from the derived configuration."""
        values = getattr(hf_config, _KEY)
        return cls(space=TokenSpace(**values["space"]), rope_freq_dtype=values["rope_freq_dtype"])


def write_derived(folder: Path, checkpoint: Path, config: GepardConfig, shape: EngineShape, max_length: int) -> None:
    """Fill an empty `folder`. max_length: positions of the longest sequence."""
    backbone, space = config.backbone_config, shape.space
    document = {
        "architectures": [ARCHITECTURE],
        # A plain decoder of the same dimensions: vLLM sizes its cache by them and reads nothing else.
        "model_type": "qwen3",
        # The width of what is sampled from; vLLM's own tables of requests x vocabulary stay small with it.
        "vocab_size": sum(config.head_sizes) + 1,
        "hidden_size": backbone.hidden_size,
        "intermediate_size": backbone.intermediate_size,
        "num_hidden_layers": backbone.num_hidden_layers,
        "num_attention_heads": backbone.num_attention_heads,
        "num_key_value_heads": backbone.num_key_value_heads,
        "head_dim": backbone.head_dim,
        "rms_norm_eps": backbone.rms_norm_eps,
        "max_position_embeddings": max_length,
        "rope_parameters": {"rope_type": "default", "rope_theta": backbone.rope_parameters.rope_theta},
        "tie_word_embeddings": True,
        "dtype": config.dtype,
        "bos_token_id": 0,
        "eos_token_id": 0,
        _KEY: {
            "space": {
                "vocab_size": space.vocab_size,
                "voices": space.voices,
                "voice_length": space.voice_length,
                "lanes": space.lanes,
                "max_frames": space.max_frames,
            },
            "rope_freq_dtype": shape.rope_freq_dtype,
        },
    }
    (folder / "config.json").write_text(json.dumps(document, indent=2))
    for name in (WEIGHTS_FILE, CONFIG_FILE):
        (folder / name).symlink_to((checkpoint / name).resolve())
