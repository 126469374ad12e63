"""What is done to a piece of speech after the vocoder: silence cut, level raised, pause added.

All of it depends on the piece alone, so that neither level nor pauses drift from segment to segment.
"""

import numpy as np

from shared.contracts import Boundary
from workers.engines.base import Samples

PAUSE_S: dict[Boundary | None, float] = {
    None: 0.0,
    "clause": 0.14,
    "sentence": 0.32,
    "paragraph": 0.65,
    "end": 0.12,
}
"""Silence after a piece, by what follows in the text. The model's own would be 0.75 s everywhere.

None: a sentence cut between words goes on at once. End: a player must not clip the last sound.
"""

_SILENCE_RMS = 5e-4
"""A frame below -66 dBFS is silence: the network's is below -100, its weakest consonant above -60."""

_LEAD_FRAMES = 1
_TAIL_FRAMES = 2
"""Frames kept around the speech: 12 to 25 ms before an onset, 25 ms after the last sound."""

_LEVEL_GAIN = 2.0
"""The network speaks at -27 dBFS, quiet beside other services; +6 dB."""

_KNEE = 0.7
_CEILING = 0.97
"""Peaks above the knee bend towards the ceiling, which leaves room for the overshoot of lossy codecs."""


def trim(samples: Samples, frame_samples: int) -> Samples:
    """Cut silence from both ends of [F * frame_samples], in whole frames; [0] if there is nothing else."""
    rms = np.sqrt(np.square(samples).reshape(-1, frame_samples).mean(axis=1))
    (sounding,) = np.nonzero(rms > _SILENCE_RMS)
    if not len(sounding):
        return samples[:0]
    first = max(int(sounding[0]) - _LEAD_FRAMES, 0)
    last = int(sounding[-1]) + _TAIL_FRAMES
    return samples[first * frame_samples : (last + 1) * frame_samples]


def level(samples: Samples, gain_db: float) -> Samples:
    """Raise to speaking level, plus `gain_db`; never beyond 0.97, and memoryless: no pumping, no state."""
    louder = samples * np.float32(_LEVEL_GAIN * 10 ** (gain_db / 20))
    excess = np.maximum(np.abs(louder) - _KNEE, 0)
    room = _CEILING - _KNEE
    bent = np.sign(louder) * (_KNEE + room * np.tanh(excess / room))
    return np.where(excess > 0, bent, louder).astype(np.float32)


def pause(boundary: Boundary | None, sample_rate_hz: int) -> Samples:
    """Return the silence after a piece."""
    return np.zeros(round(PAUSE_S[boundary] * sample_rate_hz), np.float32)
