"""Words that are to be said as their owner writes them: names, brands, terms of a trade.

A text is cut into words and signs once; from each word on, the dictionary is walked for as long as it has a
continuation. The time is linear in the text, whatever the number of entries.
"""

from collections.abc import Mapping, Sequence

import regex

from gateway.text.sanitize import sanitize
from gateway.text.speakable import has_speech

MAX_WRITTEN_CHARS = 100
MAX_SPOKEN_CHARS = 200
"""Bounds of one entry: what stands in the text, and what is said for it."""

_GROWTH_CHARS = 10_000
"""A text may become twice as long, and this much more: one letter must not turn into a book."""

# These scripts write no blanks between words: there, an entry may match anywhere.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
_TOKEN = regex.compile(rf"[{_UNSPACED}]\p{{M}}*|[[\p{{L}}\p{{M}}\p{{N}}]--[{_UNSPACED}]]+|\s+|.", regex.V1)
_QUOTES = str.maketrans("‘’ʼ´", "''''")


class LexiconError(ValueError):
    """An entry that cannot be used, or a text that its entries blow up. The message is for the client."""


class _Node:
    """The entries that share a beginning: what may follow it, and the replacement if one ends here."""

    __slots__ = ("following", "spoken")

    def __init__(self) -> None:
        self.following: dict[str, _Node] = {}
        self.spoken: str | None = None


class Lexicon:
    """Entries `word or phrase -> what is said for it`.

    Only whole words match. An entry in lower case matches any writing; one with a capital letter only its own:
    "Polish" is not "polish". A blank in an entry matches any blanks. An empty replacement leaves the word out.
    Raises LexiconError for an entry without a letter or digit and for one that is too long.
    """

    def __init__(self, entries: Mapping[str, str]) -> None:
        self._as_written = _Node()
        self._any_case = _Node()
        for written, spoken in entries.items():
            self._add(written, spoken)

    def _add(self, written: str, spoken: str) -> None:
        if len(written) > MAX_WRITTEN_CHARS:
            raise LexiconError(f"'{written[:20]}...' has {len(written)} characters; at most {MAX_WRITTEN_CHARS} match.")
        if len(spoken) > MAX_SPOKEN_CHARS:
            raise LexiconError(
                f"the replacement of '{written}' has {len(spoken)} characters; at most {MAX_SPOKEN_CHARS} are said."
            )
        written = sanitize(written).strip()
        if not has_speech(written):
            raise LexiconError(f"'{written}' has no letter or digit.")
        node = self._any_case if written == written.lower() else self._as_written
        for token in _TOKEN.findall(written):
            node = node.following.setdefault(_key(token), _Node())
        node.spoken = sanitize(spoken)

    def longest(self, tokens: Sequence[str], start: int) -> tuple[int, str] | None:
        """How many tokens from `start` on the longest entry covers, and its replacement.

        Of two equally long entries, the one with capital letters wins.
        """
        best: tuple[int, str] | None = None
        for root, fold in ((self._as_written, False), (self._any_case, True)):
            node, position = root, start
            while position < len(tokens):
                key = tokens[position].lower() if fold else tokens[position]
                following = node.following.get(key)
                if following is None:
                    break
                node, position = following, position + 1
                if node.spoken is not None and (best is None or position - start > best[0]):
                    best = position - start, node.spoken
        return best


def replace_words(text: str, lexicons: Sequence[Lexicon]) -> str:
    """Text with its lexicon words replaced; replacements are not looked up again.

    The longest entry of all lexicons wins, and of equally long ones that of the earlier lexicon. Raises
    LexiconError if the text becomes far longer.
    """
    if not lexicons:
        return text
    written = _TOKEN.findall(text)
    tokens = [_key(token) for token in written]
    room = len(text) * 2 + _GROWTH_CHARS
    said: list[str] = []
    position = 0
    while position < len(tokens):
        found = [match for lexicon in lexicons if (match := lexicon.longest(tokens, position))]
        num_tokens, piece = max(found, key=lambda match: match[0]) if found else (1, written[position])
        room -= len(piece)
        if room < 0:
            raise LexiconError("the entries make the text more than twice as long.")
        said.append(piece)
        position += num_tokens
    return "".join(said)


def _key(token: str) -> str:
    return " " if token.isspace() else token.translate(_QUOTES)
