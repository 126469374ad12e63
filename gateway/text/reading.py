"""A request's text and its wishes -> the segments of a job."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gateway.text.lexicon import Lexicon, replace_words
from gateway.text.normalize import normalize
from gateway.text.pauses import Part, split_pauses
from gateway.text.sanitize import sanitize
from gateway.text.segment import segment
from gateway.text.speakable import has_speech
from shared.contracts import Segment, TextBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a text is to be read.

    `expand`: numbers, units and the like become words; else only what is harmful is removed. `lexicons`: the
    earlier wins. `pauses`: markers such as "[pause 500ms]" become silence; else they are text.
    """

    budget: TextBudget
    language: str | None
    expand: bool = True
    lexicons: Sequence[Lexicon] = ()
    pauses: bool = False
    max_pause_ms: int = 10_000
    max_total_pause_ms: int = 60_000

    def segments(self, text: str) -> tuple[Segment, ...]:
        """The segments of a text, () if nothing in it can be spoken. Raises LexiconError and PauseError.

        A stretch between two pauses stands alone, even if it is shorter than the engine likes.
        """
        segments: list[Segment] = []
        for part in self._parts(text):
            spoken = self._spoken(part.text)
            if has_speech(spoken):
                segments += segment(spoken, self.budget, language=self.language)
            if part.pause_ms is None:
                continue
            if segments:
                last = segments.pop()
                segments.append(replace(last, boundary="sentence", pause_ms=(last.pause_ms or 0) + part.pause_ms))
            else:
                segments.append(Segment(text="", boundary="sentence", pause_ms=part.pause_ms))
        if not any(piece.text for piece in segments):
            return ()
        return (*segments[:-1], replace(segments[-1], boundary="end"))

    def _parts(self, text: str) -> list[Part]:
        if not self.pauses:
            return [Part(text, None)]
        # Sanitised first: an invisible character must not turn a marker into text.
        return split_pauses(sanitize(text), max_pause_ms=self.max_pause_ms, max_total_ms=self.max_total_pause_ms)

    def _spoken(self, text: str) -> str:
        if self.expand:
            return normalize(text, language=self.language, lexicons=self.lexicons)
        return replace_words(sanitize(text), self.lexicons)
