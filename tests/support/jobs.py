"""Jobs for tests that talk to the broker without a gateway."""

import time
from typing import Any

from shared.contracts import JobId, PresetVoice, Sampling, Segment, SpeechJob
from shared.formats import AudioFormat


def speech_job(name: str, **changes: Any) -> SpeechJob:
    """A job for the tone engine: three characters of text, pcm."""
    values: dict[str, Any] = {
        "id": JobId(name),
        "attempt": 1,
        "model": "tone",
        "segments": (Segment(text="abc", boundary="end"),),
        "voice": PresetVoice(name="low"),
        "language": None,
        "format": AudioFormat.PCM,
        "sample_rate_hz": 24000,
        "speed": 1.0,
        "seed": 7,
        "sampling": Sampling(),
        "deadline": time.time() + 60,
    }
    return SpeechJob(**{**values, **changes})
