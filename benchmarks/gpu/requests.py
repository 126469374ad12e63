"""Requests for measuring: fixed texts, voices and seeds."""

from functools import cache

import torch

from workers.gepard.config import GepardConfig
from workers.gepard.generate import GenerationRequest
from workers.gepard.layout import prompt_ids
from workers.gepard.sampling import SamplingParams

PROMPT_TEXT_IDS = 40
"""Ids of a sentence of some 30 words, as training texts had."""


def text_ids(number: int, *, length: int = PROMPT_TEXT_IDS) -> list[int]:
    """Ids below the special ones, another row of them for each number."""
    return [(7919 * (number + 1) + 104729 * place) % 200 + 20 for place in range(length)]


def prefix(config: GepardConfig, number: int) -> torch.Tensor | None:
    """A voice of random vectors about as large as embeddings; None where the model has none."""
    if config.compressor is None:
        return None
    return _vectors(number, config.compressor.num_queries, config.backbone_config.hidden_size)


@cache
def _vectors(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 0.02


@cache
def codes(config_sizes: tuple[int, ...], frames: int, seed: int) -> torch.Tensor:
    """Codes [frames, C] that a request comes with, or is made to say."""
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randint(size, (frames,), generator=generator) for size in config_sizes], dim=1)


def request(
    config: GepardConfig, number: int, *, voice: int | None = 0, given: int = 0, **sampling: object
) -> GenerationRequest:
    """A request that never stops by itself and comes with `given` frames."""
    return GenerationRequest(
        prompt_ids=prompt_ids(text_ids(number), config.special_tokens, config.text_repetition),
        prefix=None if voice is None else prefix(config, voice),
        seed=number,
        codes=codes(config.head_sizes, given, number % 8) if given else None,
        sampling=SamplingParams(**{"stop_threshold": 1.0, **sampling}),  # type: ignore[arg-type]
    )
