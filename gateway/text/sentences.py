"""Where sentences, clauses and words end, in any language."""

from collections.abc import Iterator

import regex
import sentencex

_WINDOW = 2000
"""sentencex compares every opening quotation mark with all text behind it: bounded pieces keep it linear."""

_CLAUSE_END = regex.compile(
    r"""[,;:…—–،؛][)\]"'»”’]{0,4}\s+|[!?]["')\]»”’]{0,4}\s+|[、，；：。！？][」』”’）]{0,4}\s*"""
)
_WORD_END = regex.compile(r"\b", regex.V1 | regex.WORD)
_GRAPHEME = regex.compile(r"\X", regex.V1)


def split_sentences(paragraph: str, language: str | None) -> Iterator[str]:
    """The sentences of a paragraph, each with the blanks behind it: joined they are the paragraph."""
    code = (language or "en").replace("_", "-").split("-")[0].lower()
    position = 0
    while position < len(paragraph):
        window = paragraph[position : position + _WINDOW]
        sentences = [sentence for sentence in sentencex.segment(code, window) if sentence]
        if position + _WINDOW < len(paragraph) and len(sentences) > 1:
            sentences.pop()  # The window may have cut it; the next window starts with it.
        if "".join(sentences) != window[: sum(map(len, sentences))]:
            sentences = [window]
        yield from sentences
        position += sum(map(len, sentences))


def clause_ends(sentence: str) -> list[int]:
    """Positions within a sentence where the next clause starts."""
    return [end.end() for end in _CLAUSE_END.finditer(sentence) if end.end() < len(sentence)]


def split_words(text: str, limit: int) -> Iterator[str]:
    """Pieces of at most `limit` characters, cut between words, else between graphemes, at worst anywhere."""
    position = 0
    while len(text) - position > limit:
        window = text[position : position + limit]
        end = _last_word_end(window, text[position + limit])
        yield text[position : position + end]
        position += end
    yield text[position:]


def _last_word_end(window: str, following: str) -> int:
    """The best place to cut in or at the end of the window, never 0. `following`: the character behind it."""
    if window[-1].isspace():
        return len(window)
    blank = max(window.rfind(" "), window.rfind("\n"))
    if blank * 2 >= len(window):
        return blank + 1
    for pattern in (_WORD_END, _GRAPHEME):
        ends = [match.end() for match in pattern.finditer(window + following)]
        inside = [end for end in ends if len(window) // 2 < end <= len(window)]
        if inside:
            return inside[-1]
    return blank + 1 if blank > 0 else len(window)
