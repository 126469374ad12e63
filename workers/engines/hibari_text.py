"""Segment text -> phoneme pieces that hibari's network speaks at once, each of bounded length.

hibari itself cuts only at punctuation: 600 words without a comma would be one call of ten seconds. The
gateway sends short segments; this holds whatever comes.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hibari import Hibari

from shared.contracts import Boundary, Segment

MAX_PHONEMES = 200
"""Phonemes in one call of the network: 11 s of speech, 0.2 s of one core. Also how fast a cancel acts."""

_MAX_CHARACTERS = 400
"""Text handed to the pronunciation rules at a time; they only look a word or two ahead."""

_MAX_WORD = 40
"""Letters of a word: longer ones are cut, since the network for unknown words reads 24 letters only."""

_LONG_NUMBER = re.compile(r"\d(?:,?\d){14,}")
"""From 10^15 on, digit by digit is what people read; hibari fails where its names for numbers end."""

_SPELLED_A = re.compile(
    r"\bA(?= [A-Z]\b)"
    r"|(?P<before>\b(?:zero|one|two|three|four|five|six|seven|eight|nine|[B-HJ-Z]),? )A\b(?!\.)"
)
"""An A among spelled letters and digits, which hibari would read as the article."""

_CLOSING_QUOTES = "\"'\u201c\u201d\u2019)"

_CLAUSE_BREAK = re.compile(r"[,;:—…]\s+")


@dataclass(frozen=True, slots=True)
class Piece:
    """Phonemes for one call. `boundary` follows it; None inside a sentence cut at a word and before a set pause."""

    phonemes: str
    boundary: Boundary | None


def pieces(segment: Segment, phonemize: Callable[[str], str]) -> Iterator[Piece]:
    """Cut a segment into its speakable pieces, lazily; none if there is nothing to speak.

    `phonemize` turns a sentence into phonemes. The last piece has the segment's boundary, or None if a
    pause of a given length follows.
    """
    waiting: Piece | None = None
    for piece in _inner_pieces(segment.text, phonemize):
        if waiting is not None:
            yield waiting
        waiting = piece
    if waiting is not None:
        yield Piece(waiting.phonemes, segment.boundary if segment.pause_ms is None else None)


def split_phonemes(phonemes: str, limit: int = MAX_PHONEMES) -> list[str]:
    """Cut phonemes into parts of 1 to `limit`: at a clause, else between words, else anywhere."""
    parts = []
    while len(phonemes) > limit:
        cut = _best_cut(phonemes, limit)
        parts.append(phonemes[:cut].strip())
        phonemes = phonemes[cut:].strip()
    return [part for part in (*parts, phonemes) if part]


def _inner_pieces(text: str, phonemize: Callable[[str], str]) -> Iterator[Piece]:
    for sentence in Hibari.split_sentences(text):
        for block in _blocks(_tame(sentence)):
            for part in split_phonemes(phonemize(block)):
                if any(character.isalpha() for character in part):
                    yield Piece(part, _boundary_after(part))


def _boundary_after(part: str) -> Boundary | None:
    last = part.rstrip(_CLOSING_QUOTES)[-1:]
    if last in ".!?":
        return "sentence"
    return "clause" if last in ",;:—…" else None


def _best_cut(phonemes: str, limit: int) -> int:
    # A clause break in the second half gives the better melody; one in the first half wastes the call.
    breaks = [match.end() for match in _CLAUSE_BREAK.finditer(phonemes, 0, limit)]
    if breaks and breaks[-1] > limit // 2:
        return breaks[-1]
    space = phonemes.rfind(" ", 1, limit + 1)
    return space if space > 0 else limit


def _tame(sentence: str) -> str:
    """Break up numbers and words that hibari would misread or fail on, and mark the letter A."""
    spaced = _LONG_NUMBER.sub(lambda number: " ".join(number.group().replace(",", "")), sentence)
    spaced = _SPELLED_A.sub(lambda letter: f"{letter['before'] or ''}A.", spaced)
    return re.sub(rf"\S{{{_MAX_WORD}}}(?=\S)", lambda word: f"{word.group()} ", spaced)


def _blocks(sentence: str) -> Iterator[str]:
    """Cut at a space into parts of at most `_MAX_CHARACTERS`; words are shorter than that."""
    while len(sentence) > _MAX_CHARACTERS:
        cut = sentence.rfind(" ", 1, _MAX_CHARACTERS + 1)
        yield sentence[:cut]
        sentence = sentence[cut:].strip()
    yield sentence
