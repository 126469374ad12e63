"""Written text -> speakable text: cleaned for every language, expanded into words for English."""

import re
from collections.abc import Sequence

from gateway.text.clean import clean, drop_signs
from gateway.text.english import (
    abbreviations,
    acronyms,
    codes,
    dates,
    designations,
    foreign_numbers,
    fractions,
    identifiers,
    numbers,
    operators,
    quantities,
    romans,
    spans,
    symbols,
    web,
)
from gateway.text.lexicon import Lexicon, replace_words
from gateway.text.speakable import foreign_script

# The order matters: each pass claims its tokens before a later, more general one could take a part of them.
_PASSES = (
    web.expand,
    identifiers.expand,
    codes.expand,
    foreign_numbers.expand,
    designations.expand,
    abbreviations.expand,
    romans.expand,
    spans.expand,
    dates.expand,
    fractions.expand,
    operators.expand,
    quantities.expand,
    acronyms.expand,
    numbers.expand,
    symbols.expand,
)


def normalize(text: str, *, language: str | None, lexicons: Sequence[Lexicon] = ()) -> str:
    """Text as it is read aloud, "" if there is nothing to read.

    `language` is a BCP-47 tag. English is expanded into words, and so is text without a language tag unless
    most of its letters are not Latin. Any other text is cleaned only. Line ends that remain are structure. What
    `lexicons` put in is expanded like the rest.
    """
    text = replace_words(clean(text), lexicons)
    if _is_english(text, language):
        for expand in _PASSES:
            text = expand(text)
    return drop_signs(text)


def _is_english(text: str, language: str | None) -> bool:
    if language is None:
        return foreign_script(text, ("Latin",)) is None
    return re.split(r"[-_]", language.lower(), maxsplit=1)[0] in {"en", "eng", ""}
