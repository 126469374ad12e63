"""Speakable text -> segments that fit an engine's text budget.

Text falls into paragraphs, sentences and, where a sentence is too long or the first sound would be late,
clauses and words. These pieces are packed greedily, left to right. A piece too short to stand alone joins
the one before or behind it, within its paragraph if it can.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

from gateway.text.sanitize import drop_surrogates
from gateway.text.sentences import clause_ends, split_sentences, split_words
from gateway.text.speakable import has_speech
from shared.contracts import Boundary, Segment, TextBudget

_PARAGRAPH_END = re.compile(r"\n\s*\n")

_CLAUSE_SIGNS = (",", ";", ":", "—", "，", "、", "；", "：")

_LATE_FIRST_CUT = 1.5
"""The first segment may be this much longer than `first` if its clause ends there."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of text with the blank behind it, and what follows it. Never longer than `maximum`."""

    text: str
    boundary: Boundary

    @property
    def length(self) -> int:
        return len(self.text.rstrip())


class _Draft:
    """A segment in the making."""

    def __init__(self, pieces: Sequence[_Piece] = ()) -> None:
        self.pieces = list(pieces)

    def __bool__(self) -> bool:
        return bool(self.pieces)

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces).strip()

    @property
    def boundary(self) -> Boundary:
        return self.pieces[-1].boundary

    def length_with(self, piece: _Piece) -> int:
        return sum(len(piece.text) for piece in self.pieces) + piece.length


def segment(text: str, budget: TextBudget, *, language: str | None) -> tuple[Segment, ...]:
    """The segments of a text, () if nothing in it can be spoken.

    Blanks aside, the segments together are the text. Something is lost only where it must be: lone
    surrogates, and signs without a letter that would make a segment longer than `maximum`. A segment is
    shorter than `minimum` only if the whole text is, or if it fits no neighbour.
    """
    packer = _Packer(budget)
    for paragraph in _PARAGRAPH_END.split(drop_surrogates(text)):
        pieces = list(_pieces(paragraph, budget, language))
        if pieces:
            pieces[-1] = replace(pieces[-1], boundary="paragraph")
            packer.add_paragraph(pieces)
    return packer.finish()


def _pieces(paragraph: str, budget: TextBudget, language: str | None) -> Iterator[_Piece]:
    """The sentences of a paragraph, or the parts of those longer than `maximum`. Blanks are single."""
    for line in paragraph.split("\n"):
        # The line end is a blank, too: the last sentence of a line gets it.
        blank_free = " ".join(line.split())
        for sentence in split_sentences(f"{blank_free} ", language) if blank_free else ():
            if len(sentence.rstrip()) <= budget.maximum:
                yield _Piece(sentence, "clause" if sentence.rstrip().endswith(_CLAUSE_SIGNS) else "sentence")
            else:
                yield from _parts(sentence, budget)


def _parts(sentence: str, budget: TextBudget) -> Iterator[_Piece]:
    """The clauses of a long sentence; a clause longer than `maximum` in even parts near `target`."""
    ends = [0, *clause_ends(sentence), len(sentence)]
    for start, end in pairwise(ends):
        clause = sentence[start:end]
        limit = budget.maximum
        if len(clause) > limit:
            num_parts = ceil(len(clause) / budget.target)
            # Room to cut at a blank, so that no short rest remains.
            limit = min(limit, max(1, ceil(len(clause) / num_parts * 1.2)))
        for part in split_words(clause, limit):
            yield _Piece(part, "clause")


class _Packer:
    """Fills segments with pieces."""

    def __init__(self, budget: TextBudget) -> None:
        self._budget = budget
        self._done: list[_Draft] = []
        self._draft = _Draft()
        self._paragraph_start = 0

    def add_paragraph(self, pieces: Iterable[_Piece]) -> None:
        """Take the pieces of one paragraph. A rest that is too short waits for the next paragraph."""
        self._paragraph_start = len(self._done)
        waiting = deque(pieces)
        while waiting:
            piece = waiting.popleft()
            goal = self._budget.target if self._done else self._budget.first
            if self._draft.length_with(piece) <= goal:
                self._draft.pieces.append(piece)
            elif not has_speech(piece.text) and self._draft.length_with(piece) <= self._budget.maximum:
                # Stray punctuation belongs to what it follows.
                self._draft.pieces.append(piece)
            elif self._is_complete():
                self._close()
                waiting.appendleft(piece)
            else:
                waiting.extendleft(reversed(self._extend(piece)))
        if self._is_complete():
            self._close()
        elif self._draft and len(self._done) > self._paragraph_start:
            self._join_last()

    def finish(self) -> tuple[Segment, ...]:
        if self._draft and not self._is_complete() and self._done:
            self._join_last()
        if self._draft and has_speech(self._draft.text):
            self._close()
        return tuple(
            Segment(text=draft.text, boundary=draft.boundary if draft is not self._done[-1] else "end")
            for draft in self._done
        )

    def _is_complete(self) -> bool:
        text = self._draft.text
        return len(text) >= self._budget.minimum and has_speech(text)

    def _close(self) -> None:
        self._done.append(self._draft)
        self._draft = _Draft()

    def _extend(self, piece: _Piece) -> list[_Piece]:
        """Add a piece, or its first part, to a draft too short to close; return the rest of it."""
        room = self._budget.maximum - self._draft.length_with(_Piece("", "clause"))
        if not self._done and (parts := self._cut_first(piece, self._budget.maximum - room)):
            self._draft.pieces.append(parts[0])
            return [parts[1]]
        if piece.length <= room:
            self._draft.pieces.append(piece)
            return []
        if not has_speech(self._draft.text):
            # Signs alone, too many to share a segment: one of the two has to go.
            if has_speech(piece.text):
                self._draft = _Draft()
                return [piece]
            return []
        parts = _halves(piece)
        if parts and parts[0].length <= room:
            self._draft.pieces.append(parts[0])
            return [parts[1]]
        self._close()
        return [piece]

    def _cut_first(self, piece: _Piece, taken: int) -> tuple[_Piece, _Piece] | None:
        """A long first sentence in two at the clause end that serves an early first sound best."""
        budget = self._budget
        latest = min(budget.first * _LATE_FIRST_CUT, budget.maximum)
        if taken + piece.length <= latest:
            return None
        ends = [
            end
            for end in clause_ends(piece.text)
            if budget.minimum <= taken + end <= latest and len(piece.text) - end >= budget.minimum
        ]
        if not ends:
            return None
        early = [end for end in ends if taken + end <= budget.first]
        return _cut(piece, early[-1] if early else ends[0])

    def _join_last(self) -> None:
        """Give a draft that is too short to the last segment, or share out both anew."""
        pieces = [*self._done[-1].pieces, *self._draft.pieces]
        if len(_Draft(pieces).text) <= self._budget.maximum:
            self._done[-1] = _Draft(pieces)
            self._draft = _Draft()
            return
        shared = self._share(pieces, self._budget.minimum)
        if not shared and not has_speech(self._draft.text):
            # Better two short segments than a lost full stop.
            shared = self._share(pieces, 1)
        if shared:
            self._done[-1], self._draft = shared
            self._close()

    def _share(self, pieces: list[_Piece], minimum: int) -> tuple[_Draft, _Draft] | None:
        """Pieces in two segments of `minimum` to `maximum`, as even as possible, or None."""
        halved = [half for piece in pieces for half in (_halves(piece) or (piece,))]
        for candidates in (pieces, halved):
            cuts = [(_Draft(candidates[:at]), _Draft(candidates[at:])) for at in range(1, len(candidates))]
            fitting = [cut for cut in cuts if all(self._fits(draft.text, minimum) for draft in cut)]
            if fitting:
                return min(fitting, key=lambda cut: abs(len(cut[0].text) - len(cut[1].text)))
        return None

    def _fits(self, text: str, minimum: int) -> bool:
        return minimum <= len(text) <= self._budget.maximum and has_speech(text)


def _halves(piece: _Piece) -> tuple[_Piece, _Piece] | None:
    """A piece in two, at a clause end near its middle if there is one, else between words."""
    length = len(piece.text)
    if length < 2:
        return None
    middle = [end for end in clause_ends(piece.text) if length <= 4 * end <= 3 * length]
    if middle:
        return _cut(piece, min(middle, key=lambda end: abs(2 * end - length)))
    head = next(split_words(piece.text, ceil(length / 2)))
    return _cut(piece, len(head)) if len(head) < length else None


def _cut(piece: _Piece, at: int) -> tuple[_Piece, _Piece]:
    return _Piece(piece.text[:at], "clause"), replace(piece, text=piece.text[at:])
