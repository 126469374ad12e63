"""What the neighbours of a number say about it."""

import re

_NEXT_WORD = re.compile(r"[ ]([a-z][a-z'-]{0,30})")
_LAST_WORD = re.compile(r"([A-Za-z.]{1,20})[ ]$")

_COUNTED = frozenset(
    {"people", "men", "women", "children", "percent", "million", "billion", "thousand", "times", "more"}
)
# Verbs and function words that end in s: what follows "the code 1234" or "in 1999" without being counted.
_NOT_COUNTED = frozenset(
    "is was as has does its his this us thus yes plus minus expires lapses works begins starts ends was "
    "means across versus unless always perhaps sometimes gives looks seems needs goes makes becomes "
    "comes happens remains brings marks saw".split()
)  # fmt: skip


def counts_something(text: str, end: int) -> bool:
    """Whether the word behind a number that ends at `end` looks like the things it counts."""
    word = _NEXT_WORD.match(text, end)
    if word is None:
        return False
    return word[1] in _COUNTED or (len(word[1]) > 2 and word[1].endswith("s") and word[1] not in _NOT_COUNTED)


def word_before(text: str, start: int) -> str:
    """The word directly before `start`, in lower case; "" if there is none."""
    word = _LAST_WORD.search(text, max(0, start - 24), start)
    return word[1].lower() if word else ""
