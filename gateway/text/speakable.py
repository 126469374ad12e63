"""Whether a text can be spoken at all, and whether an engine knows its script."""

from collections.abc import Sequence
from functools import cache, lru_cache

import regex

_LETTERS = regex.compile(r"\p{L}+")
_SPEECH = regex.compile(r"[\p{L}\p{N}]")

_SCRIPTS = (
    "Latin", "Cyrillic", "Greek", "Han", "Hiragana", "Katakana", "Hangul", "Bopomofo", "Arabic", "Hebrew",
    "Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam",
    "Sinhala", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan", "Georgian", "Armenian", "Ethiopic", "Syriac",
    "Thaana", "Nko", "Tifinagh", "Mongolian", "Cherokee", "Canadian_Aboriginal", "Javanese", "Balinese",
    "Sundanese", "Ol_Chiki", "Meetei_Mayek", "Vai", "Yi", "Adlam", "Tai_Le", "Limbu", "Lepcha", "Runic",
    "Ogham", "Gothic", "Coptic",
)  # fmt: skip
_OTHER = "other"


def has_speech(text: str) -> bool:
    """Whether there is at least one letter or digit, of any script."""
    return _SPEECH.search(text) is not None


def foreign_script(text: str, scripts: Sequence[str]) -> str | None:
    """The main script of a text most of whose letters are in none of `scripts`, else None.

    `scripts` are Unicode script names. Letters that no script owns, such as modifier letters, are never
    foreign. The name is "other" for a script without readers to speak of.
    """
    num_letters = sum(len(run) for run in _LETTERS.findall(text))
    rest = "".join(_letters_of_others(tuple(scripts)).findall(text))
    if len(rest) * 2 <= num_letters:
        return None
    counts: dict[str, int] = {}
    for script in _SCRIPTS:
        if not rest:
            break
        kept = _of_script(script).sub("", rest)
        counts[script] = len(rest) - len(kept)
        rest = kept
    counts[_OTHER] = len(rest)
    return max(counts, key=counts.__getitem__)


@lru_cache(maxsize=64)
def _letters_of_others(scripts: tuple[str, ...]) -> "regex.Pattern[str]":
    known = "".join(rf"\p{{Script={script}}}" for script in (*scripts, "Common", "Inherited"))
    return regex.compile(rf"[\p{{L}}--[{known}]]+", regex.V1)


@cache
def _of_script(script: str) -> "regex.Pattern[str]":
    return regex.compile(rf"\p{{Script={script}}}+")
