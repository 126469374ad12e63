"""The one seam between the product and a model."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from shared.clip import Clip
from shared.contracts import EngineInfo, HostFigures, PresetVoice, ProfileKind, Sampling, Segment

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerProfile:
    """What an engine makes of a clip, once; only engines of both revisions can read the payload."""

    model_revision: str
    compressor_revision: str
    kind: ProfileKind
    payload: bytes

    def to_bytes(self) -> bytes:
        """For caches; msgpack."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote. Raises ValueError for anything else."""
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except msgspec.MsgspecError as error:
            raise ValueError(f"no speaker profile: {error}") from error

    def fits(self, info: EngineInfo) -> bool:
        """Whether an engine with these facts can speak with it."""
        return (self.model_revision, self.compressor_revision) == (info.revision, info.compressor_revision)


Speaker = PresetVoice | SpeakerProfile
"""Whose voice a request is spoken in: one the engine has of itself, or one made of a clip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisRequest:
    """One segment to speak. The same request gives the same samples (`seed` decides every draw).

    `resume`: what the chunks of an earlier attempt at this segment gave as `resume`, joined; the same samples
    come for them, from the first one on, and then the rest.
    """

    segment: Segment
    voice: Speaker
    language: str | None
    seed: int
    sampling: Sampling
    resume: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class PcmChunk:
    """Mono samples [n] in -1..1 at the engine's rate.

    `frames`: model frames behind them. `text_tokens`: text tokens first accounted for by this chunk.
    `resume`: what another worker needs to regenerate them, empty when the seed is enough. `runaways`: tries
    of the segment that only a guard ended, told once.
    """

    samples: Samples
    frames: int
    text_tokens: int = 0
    resume: bytes = b""
    runaways: int = 0


class Engine(Protocol):
    """A model that speaks. One instance serves `info.capacity` requests at once."""

    @property
    def info(self) -> EngineInfo:
        """Facts the gateway decides by; constant after `start`."""
        ...

    @property
    def is_available(self) -> bool:
        """Whether a request begun now would be served; False while a model in another process is away.

        Constant after `start` for an engine of this process. Raises shared.errors.EngineBroken when it will not
        come back.
        """
        ...

    @property
    def host(self) -> HostFigures | None:
        """What the process that holds the model says of itself; None where that is this one, or it is away."""
        ...

    async def start(self) -> None:
        """Load and warm up; returns when the next request would be served at full speed."""
        ...

    async def stop(self) -> None:
        """Free everything; running requests have been cancelled before."""
        ...

    async def profile(self, clip: Clip) -> SpeakerProfile:
        """Make a voice of a clip; never blocks the event loop, and running requests hardly wait for it.

        The same clip gives the same profile. Raises shared.errors.EngineError with neither `info.can_clone`
        nor `info.can_match`, and when the clip cannot be used.
        """
        ...

    def synthesize(self, request: SynthesisRequest) -> AsyncGenerator[PcmChunk, None]:
        """Speak one segment, pause after it included unless it has a `pause_ms`; never blocks the event loop.

        Cancelling or closing the iterator frees everything within one step. Text in which the engine finds
        nothing to speak gives no chunk. Raises shared.errors.EngineError when the model fails, EngineLost when
        another attempt, here or elsewhere, may go on with what has come.
        """
        ...
