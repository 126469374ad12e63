"""Where a clip has speech, and which part of a long one is kept. Decisions on plain arrays."""

import numpy as np
import pytest

from tests.support.clips import speech
from tests.support.signals import noise
from voices.intake.checks import Activity, activity, refusal
from voices.intake.order import CLIP_RATE_HZ, Refused
from voices.intake.window import best_window

VOICE = speech(2, rate_hz=CLIP_RATE_HZ)
SILENCE = np.zeros(2 * CLIP_RATE_HZ, np.float32)


@pytest.mark.parametrize(
    ("samples", "seconds"),
    [
        (VOICE, 2.0),
        (np.concatenate((SILENCE, VOICE, SILENCE)), 2.0),
        (0.01 * VOICE, 2.0),
        (VOICE + 0.1 * noise(len(VOICE)), 2.0),
        (np.concatenate((VOICE, 0.1 * noise(2 * CLIP_RATE_HZ))), 2.0),
        (noise(2 * CLIP_RATE_HZ), 0.0),
        (SILENCE, 0.0),
        (VOICE[:100], 0.0),
    ],
    ids=["voice", "between silences", "faint", "in noise", "beside noise", "noise", "silence", "a click"],
)
def test_speech_is_what_is_voiced(samples, seconds):
    assert activity(samples.astype(np.float32)).speech_s == pytest.approx(seconds, abs=0.2)


def _activity(speech_marks: str, clipped_marks: str = "", loudest_db: float = -20.0) -> Activity:
    """One character for each 0.1 s: x where there is speech or clipping."""
    speech_frames = np.repeat([mark == "x" for mark in speech_marks], 5)
    clipped = np.repeat([mark == "x" for mark in clipped_marks or "." * len(speech_marks)], 5)
    return Activity(speech=speech_frames, clipped=clipped, loudest_db=loudest_db)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (_activity("x" * 10), None),
        (_activity("x" * 9), Refused(code="clip_too_short", seconds=0.9)),
        (_activity("." * 20, loudest_db=-70), Refused(code="clip_silent")),
        (_activity("x" * 10, "xxxxx....."), Refused(code="clip_clipped")),
        (_activity("x" * 10, "xxx......."), None),
        (_activity("x" * 10 + "." * 10, "." * 10 + "x" * 10), None),
    ],
    ids=["just enough", "too little", "silent", "half clipped", "a third clipped", "clipped in the pauses only"],
)
def test_a_clip_is_refused_for_one_plain_reason(found, expected):
    assert refusal(found) == expected


@pytest.mark.parametrize(
    ("speech_marks", "clipped_marks", "tenths", "expected"),
    [
        ("....xxxxxxxxxx....", "", 10, 4),
        ("xx..xxxxxxxxxx....", "", 10, 4),
        ("xxxxx..xxxxx..xxxxx", "", 5, 0),
        # An edge in a pause is worth a little less speech.
        ("xxxxxxxxxxxx..xxxxxxxxx.", "", 10, 13),
        ("xxxxxxxxxx..xxxxxxxxxx", "xxxxxxxxxx............", 10, 12),
        ("....................", "", 10, 0),
    ],
    ids=["speech in silence", "most speech", "the earliest of equals", "cut in a pause", "not overdriven", "none"],
)
def test_the_best_window_holds_most_speech(speech_marks, clipped_marks, tenths, expected):
    start = best_window(_activity(speech_marks, clipped_marks), tenths * 5)
    assert start / 5 == pytest.approx(expected, abs=1)


def test_a_window_may_be_the_whole_clip():
    assert best_window(_activity("x" * 10), 50) == 0
