"""Whether a clip can serve as a voice: where it has speech, and whether that is silent, scarce or overdriven."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from shared.pitch import HOP_S, pitch_track
from voices.intake.order import CLIP_RATE_HZ, MIN_SPEECH_S, Refused

FRAME_SAMPLES = round(HOP_S * CLIP_RATE_HZ)

_SILENT_DB = -60.0
"""A clip whose loudest 20 ms are below this is silent."""

_SPEECH_RANGE_DB = 35.0
"""How far below the loudest 20 ms speech may be."""

_AROUND_VOICED_FRAMES = 7
"""Consonants and short closures belong to the vowel they lean on: 140 ms to either side."""

_VOICED_RUN = 3
"""Voiced frames in a row that make a vowel; fewer are chance."""

_FULL_SCALE = 0.85
_CLIPPED_SHARE = 0.05
"""A frame is overdriven with 5 % of its samples at full scale; filtering leaves flat tops above 0.85 of it."""

_CLIPPED_THROUGHOUT = 0.4
"""Share of overdriven frames: peaks 6 dB beyond full scale make 0.1 to 0.2 of them, 12 dB 0.4 to 0.6."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What happens in each 20 ms of a clip: [F] each."""

    speech: NDArray[np.bool_]
    clipped: NDArray[np.bool_]
    loudest_db: float

    @property
    def speech_s(self) -> float:
        """Seconds of speech."""
        return int(self.speech.sum()) * HOP_S

    def part(self, start: int, num_frames: int) -> Self:
        """The same of a part of the clip."""
        end = start + num_frames
        return replace(self, speech=self.speech[start:end], clipped=self.clipped[start:end])


def activity(samples: NDArray[np.float32]) -> Activity:
    """Find speech in samples [n] at CLIP_RATE_HZ: what is voiced and what leans on it. Music counts, too."""
    frames = np.pad(samples, (0, -len(samples) % FRAME_SAMPLES)).reshape(-1, FRAME_SAMPLES)
    level_db = 10 * np.log10(np.square(frames).mean(axis=1) + 1e-12)
    loudest_db = float(level_db.max())
    near_vowel = _widen(_runs(pitch_track(samples, CLIP_RATE_HZ) > 0))
    return Activity(
        speech=near_vowel & (level_db > loudest_db - _SPEECH_RANGE_DB) & (level_db > _SILENT_DB),
        clipped=(np.abs(frames) >= _FULL_SCALE).mean(axis=1) >= _CLIPPED_SHARE,
        loudest_db=loudest_db,
    )


def refusal(found: Activity) -> Refused | None:
    """Why a clip cannot be used, or None."""
    if found.loudest_db < _SILENT_DB:
        return Refused(code="clip_silent")
    if found.speech_s < MIN_SPEECH_S:
        return Refused(code="clip_too_short", seconds=found.speech_s)
    if found.clipped[found.speech].mean() > _CLIPPED_THROUGHOUT:
        return Refused(code="clip_clipped")
    return None


def _runs(voiced: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Keep True only in runs of `_VOICED_RUN` and more."""
    run = np.convolve(voiced, np.ones(_VOICED_RUN), "valid") == _VOICED_RUN if len(voiced) >= _VOICED_RUN else []
    kept = np.zeros(len(voiced), np.bool_)
    for start in np.flatnonzero(run):
        kept[start : start + _VOICED_RUN] = True
    return kept


def _widen(marks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """True wherever a mark is within reach."""
    near = np.convolve(marks, np.ones(2 * _AROUND_VOICED_FRAMES + 1), "full")
    wide: NDArray[np.bool_] = near[_AROUND_VOICED_FRAMES : len(marks) + _AROUND_VOICED_FRAMES] > 0
    return wide
