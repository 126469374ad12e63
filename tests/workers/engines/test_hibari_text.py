"""How the embedded engine cuts text into pieces for its network."""

import pytest

from shared.contracts import Segment
from workers.engines.hibari_text import MAX_PHONEMES, pieces, split_phonemes


def cut(text, boundary="end"):
    return [(piece.phonemes, piece.boundary) for piece in pieces(Segment(text=text, boundary=boundary), lambda s: s)]


@pytest.mark.parametrize(
    ("phonemes", "limit", "parts"),
    [
        pytest.param("abc def", 10, ["abc def"], id="short"),
        pytest.param("aaa bbb, ccc ddd eee", 16, ["aaa bbb,", "ccc ddd eee"], id="at the clause"),
        pytest.param("a, bbb ccc ddd eee", 12, ["a, bbb ccc", "ddd eee"], id="an early clause wastes the call"),
        pytest.param("aaaa bbbb cccc", 10, ["aaaa bbbb", "cccc"], id="between words"),
        pytest.param("aaaaaaaaaaaa", 5, ["aaaaa", "aaaaa", "aa"], id="anywhere"),
        pytest.param("", 5, [], id="nothing"),
    ],
)
def test_phonemes_are_cut_at_the_best_place(phonemes, limit, parts):
    assert split_phonemes(phonemes, limit) == parts


def test_cutting_loses_no_phoneme():
    phonemes = " ".join("abcdefg"[: 1 + index % 7] for index in range(500))
    parts = split_phonemes(phonemes)
    assert " ".join(parts) == phonemes
    assert max(map(len, parts)) <= MAX_PHONEMES


def test_each_sentence_is_a_piece_and_the_last_has_the_boundary_of_the_segment():
    assert cut("One. Two! Three", "paragraph") == [
        ("One.", "sentence"),
        ("Two!", "sentence"),
        ("Three", "paragraph"),
    ]


def test_a_sentence_cut_at_a_word_has_no_pause_inside():
    pieces_of_it = cut("word " * 60)
    assert len(pieces_of_it) == 2
    assert [boundary for _, boundary in pieces_of_it] == [None, "end"]


def test_a_sentence_cut_at_a_comma_has_a_clause_pause_there():
    assert [boundary for _, boundary in cut("word " * 30 + "word, " + "word " * 30)] == ["clause", "end"]


def test_unspeakable_pieces_do_not_take_the_boundary():
    assert cut("One. ... Two. ?!", "paragraph") == [("One.", "sentence"), ("Two.", "paragraph")]


def test_long_numbers_are_read_digit_by_digit():
    """hibari fails where its names for numbers end."""
    assert cut("It is " + "1" * 20) == [("It is " + " ".join("1" * 20), "end")]
    assert cut("It is 1,234,567") == [("It is 1,234,567", "end")]


def test_pieces_are_made_as_they_are_asked_for():
    seen = []

    def phonemize(sentence):
        seen.append(sentence)
        return sentence

    next(pieces(Segment(text="One. Two. Three. Four.", boundary="end"), phonemize))
    # One piece ahead, to know whether it is the last.
    assert seen == ["One.", "Two."]


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("A W S is down", "A. W S is down"),
        ("three F two A nine", "three F two A. nine"),
        ("code B, A four", "code B, A. four"),
        ("A friend has a B and an A", "A friend has a B and an A"),
        ("So am I A fool", "So am I A fool"),
    ],
)
def test_a_spelled_a_is_not_the_article(text, marked):
    """hibari reads "A." as the letter and a lone "A" as the article."""
    assert cut(text) == [(marked, "end")]


def test_a_pause_of_a_given_length_takes_the_place_of_the_engines_own():
    segment = Segment(text="One. Two.", boundary="sentence", pause_ms=700)
    assert [piece.boundary for piece in pieces(segment, lambda text: text)] == ["sentence", None]
