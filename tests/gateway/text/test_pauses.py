"""Pauses that the writer asks for."""

import time

import pytest

from gateway.text import Lexicon, PauseError, Reading
from gateway.text.pauses import split_pauses
from shared.contracts import TextBudget

BUDGET = TextBudget(minimum=20, first=60, target=200, maximum=300)


def read(text, *, pauses=True, expand=True, lexicons=()):
    reading = Reading(
        budget=BUDGET,
        language="en",
        expand=expand,
        lexicons=lexicons,
        pauses=pauses,
        max_pause_ms=10_000,
        max_total_pause_ms=60_000,
    )
    return [(piece.text, piece.boundary, piece.pause_ms) for piece in reading.segments(text)]


MARKERS = {
    "milliseconds": ("[pause 500ms]", 500),
    "seconds": ("[pause 2s]", 2000),
    "fraction": ("[pause 1.5s]", 1500),
    "fraction-alone": ("[pause .25s]", 250),
    "fraction-of-a-millisecond": ("[pause 0.4ms]", 0),
    "blank-before-the-unit": ("[pause 500 ms]", 500),
    "long-unit": ("[pause 2 seconds]", 2000),
    "capitals": ("[PAUSE 1S]", 1000),
    "no-length": ("[pause]", 500),
    "zero": ("[pause 0ms]", 0),
    "longest": ("[pause 10s]", 10_000),
}


@pytest.mark.parametrize(("marker", "pause_ms"), MARKERS.values(), ids=MARKERS.keys())
def test_a_marker_is_silence_and_never_spoken(marker, pause_ms):
    expected = [("One two.", "sentence", pause_ms), ("Three.", "end", None)]
    for expand in (True, False):
        assert read(f"One two. {marker} Three.", expand=expand) == expected
        assert read(f"One two.{marker}Three.", expand=expand) == expected


PLAIN = {
    "no-unit": ("[pause 5]", "pause five"),
    "negative": ("[pause -1s]", "pause minus one second"),
    "sentence": ("[pause for effect]", "pause for effect"),
    "round-brackets": ("(pause 1s)", "(pause one second)"),
    "plural": ("[pauses]", "pauses"),
    "unknown-unit": ("[pause 5 min]", "pause five minutes"),
}


@pytest.mark.parametrize(("text", "spoken"), PLAIN.values(), ids=PLAIN.keys())
def test_what_only_looks_like_a_marker_is_text(text, spoken):
    assert read(f"Then {text} again.") == [(f"Then {spoken} again.", "end", None)]


def test_without_the_option_a_marker_is_text():
    assert read("One. [pause 500ms] Two.", pauses=False) == [("One. pause five hundred milliseconds Two.", "end", None)]


def test_pauses_stand_where_they_were_written():
    assert read("[pause 1s] One. [pause 2s][pause 500ms] Two. [pause 3s]") == [
        ("", "sentence", 1000),
        ("One.", "sentence", 2500),
        ("Two.", "end", 3000),
    ]


def test_a_pause_within_a_sentence_cuts_it_there():
    assert read("Ready, [pause 1s] steady [pause 1s], go!") == [
        ("Ready,", "sentence", 1000),
        ("steady,", "sentence", 1000),
        ("go!", "end", None),
    ]


def test_signs_between_pauses_join_the_pauses():
    assert read("One. [pause 1s] ... [pause 1s] Two.") == [("One.", "sentence", 2000), ("Two.", "end", None)]


def test_an_invisible_character_does_not_turn_a_marker_into_text():
    assert read("One. [pa\u200buse\u00a01s] Two.") == [("One.", "sentence", 1000), ("Two.", "end", None)]


def test_a_lexicon_does_not_touch_markers():
    assert read("pause [pause 1s] pause", lexicons=[Lexicon({"pause": "paws"})]) == [
        ("paws", "sentence", 1000),
        ("paws", "end", None),
    ]


@pytest.mark.parametrize("text", ["[pause 1s]", " [pause] ... [pause 2s]\n", "", "!?"])
def test_pauses_alone_are_nothing_to_speak(text):
    assert read(text) == []


@pytest.mark.parametrize("text", ["a [pause 10001ms]", "a [pause 11s]", "a [pause 999999s]", "a [pause 10s]" * 7])
def test_pauses_above_their_bounds_are_refused(text):
    with pytest.raises(PauseError, match="longer than"):
        read(text)


@pytest.mark.parametrize("unit", ["[pause", "[pause ", "[pause 1", "[pause 0ms]", "[", "[ pause 000000.000"])
def test_time_is_bounded_for_repeated(unit):
    started = time.process_time()
    split_pauses(unit * (1_000_000 // len(unit)), max_pause_ms=10_000, max_total_ms=60_000)
    assert time.process_time() - started < 2
