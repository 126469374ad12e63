"""Engines for tests that need timing or failure under control."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable

import numpy as np

from shared.clip import Clip
from shared.contracts import EngineInfo, Preset, TextBudget
from shared.errors import EngineError
from workers.engines.base import PcmChunk, Speaker, SpeakerProfile, SynthesisRequest

RATE_HZ = 24000


def engine_info(
    *, model: str = "tone", capacity: int = 8, can_resume: bool = True, can_match: bool = False
) -> EngineInfo:
    """Facts of a test engine with two presets."""
    return EngineInfo(
        model=model,
        revision="test",
        sample_rate_hz=RATE_HZ,
        frame_s=0.01,
        languages=("en",),
        scripts=("Latin",),
        text_budget=TextBudget(minimum=1, first=60, target=120, maximum=200),
        presets=(Preset(name="low", description="200 Hz"), Preset(name="high", description="400 Hz")),
        can_clone=False,
        can_match=can_match,
        compressor_revision="tones" if can_match else "",
        can_guide=False,
        can_resume=can_resume,
        capacity=capacity,
    )


class ToneEngine:
    """Speaks 50 ms of tone for each `chunk_chars` characters, a chunk each.

    `step` runs before each chunk: sleep in it, raise in it, or wait for an event. `profile_step` runs in each
    extraction; `profiled` has the hashes of all clips that came.
    """

    def __init__(
        self,
        info: EngineInfo | None = None,
        *,
        step: Callable[[SynthesisRequest, int], object] | None = None,
        profile_step: Callable[[Clip], object] | None = None,
        chunk_chars: int = 1,
    ) -> None:
        self._info = info or engine_info()
        self._chunk_chars = chunk_chars
        self.step = step
        self.profile_step = profile_step
        self.profiled: list[str] = []
        self.requests: list[SynthesisRequest] = []
        self.steps = 0
        self.running = 0

    is_available = True
    host = None

    @property
    def info(self) -> EngineInfo:
        return self._info

    async def start(self) -> None:
        await asyncio.sleep(0)

    async def stop(self) -> None:
        await asyncio.sleep(0)

    async def profile(self, clip: Clip) -> SpeakerProfile:
        """With `can_match`: the clip's hash, so that a test hears whose voice it is."""
        if not self._info.can_match:
            raise EngineError("a tone has no other voice")
        self.profiled.append(clip.sha256)
        if self.profile_step is not None and asyncio.iscoroutine(pause := self.profile_step(clip)):
            await pause
        return SpeakerProfile(
            model_revision=self._info.revision,
            compressor_revision=self._info.compressor_revision,
            kind="matched",
            payload=clip.sha256.encode(),
        )

    async def synthesize(self, request: SynthesisRequest) -> AsyncGenerator[PcmChunk, None]:
        self.requests.append(request)
        self.running += 1
        try:
            for index in range(0, len(request.segment.text), self._chunk_chars):
                self.steps += 1
                if self.step is not None and asyncio.iscoroutine(pause := self.step(request, index)):
                    await pause
                yield PcmChunk(samples=tone(request, index), frames=5, text_tokens=1)
        finally:
            self.running -= 1


def tone(request: SynthesisRequest, index: int) -> np.ndarray:
    """50 ms of tone, different for each voice, seed and character."""
    key = f"{speaker_name(request.voice)}:{request.seed}:{request.segment.text[index]}".encode()
    pitch_hz = 150 + int.from_bytes(hashlib.blake2b(key, digest_size=2).digest()) % 600
    time_s = np.arange(RATE_HZ // 20) / RATE_HZ
    return (0.3 * np.sin(2 * np.pi * pitch_hz * time_s)).astype(np.float32)


def speaker_name(speaker: Speaker) -> str:
    """What tells voices apart: the preset's name, or the hash of the clip."""
    return speaker.payload.decode() if isinstance(speaker, SpeakerProfile) else speaker.name
