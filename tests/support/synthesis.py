"""Requests to an engine, and what becomes of them."""

import numpy as np
from numpy.typing import NDArray

from shared.contracts import Boundary, PresetVoice, Sampling, Segment
from workers.engines.base import PcmChunk, SynthesisRequest


def request(text: str, voice: str = "heart", *, boundary: Boundary = "end", seed: int = 1) -> SynthesisRequest:
    """One segment to speak."""
    return SynthesisRequest(
        segment=Segment(text=text, boundary=boundary),
        voice=PresetVoice(name=voice),
        language=None,
        seed=seed,
        sampling=Sampling(),
    )


def joined(chunks: list[PcmChunk]) -> NDArray[np.float32]:
    """The samples of all chunks."""
    return np.concatenate([chunk.samples for chunk in chunks])
