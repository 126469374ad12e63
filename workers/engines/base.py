"""The one seam between the product and a model."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shared.contracts import EngineInfo, Sampling, Segment, Voice

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisRequest:
    """One segment to speak. The same request gives the same samples (`seed` decides every draw)."""

    segment: Segment
    voice: Voice
    language: str | None
    seed: int
    sampling: Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class PcmChunk:
    """Mono samples [n] in -1..1 at the engine's rate.

    `frames`: model frames behind them. `text_tokens`: text tokens first accounted for by this chunk.
    `resume`: what another worker needs to regenerate them, empty when the seed is enough.
    """

    samples: Samples
    frames: int
    text_tokens: int = 0
    resume: bytes = b""


class Engine(Protocol):
    """A model that speaks. One instance serves `info.capacity` requests at once."""

    @property
    def info(self) -> EngineInfo:
        """Facts the gateway decides by; constant after `start`."""
        ...

    async def start(self) -> None:
        """Load and warm up; returns when the next request would be served at full speed."""
        ...

    async def stop(self) -> None:
        """Free everything; running requests have been cancelled before."""
        ...

    def synthesize(self, request: SynthesisRequest) -> AsyncGenerator[PcmChunk, None]:
        """Speak one segment, pause after it included unless it has a `pause_ms`; never blocks the event loop.

        Cancelling or closing the iterator frees everything within one step. Text in which the engine finds
        nothing to speak gives no chunk. Raises shared.errors.EngineError when the model fails.
        """
        ...
