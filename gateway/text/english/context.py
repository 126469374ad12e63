"""What the neighbours of a number or an abbreviation say about it."""

import re

_NEXT_WORD = re.compile(r"[ ]([a-z][a-z'-]{0,30})")
_LAST_WORD = re.compile(r"([A-Za-z.]{1,20})[ ]$")
_SENTENCE_END = re.compile(r"\s{0,3}$|[ ][\"'(]?[A-Z]|\n")

_COUNTED = frozenset(
    {"people", "men", "women", "children", "percent", "million", "billion", "thousand", "times", "more"}
)
# Verbs and function words in -s: they follow "the code 1234" or "1999" without being counted.
_NOT_COUNTED = frozenset(
    [
        "is", "was", "as", "has", "does", "its", "his", "this", "us", "thus", "yes", "plus", "minus", "expires",
        "lapses", "works", "begins", "starts", "ends", "means", "across", "versus", "unless", "always",
        "perhaps", "sometimes", "gives", "looks", "seems", "needs", "goes", "makes", "becomes", "comes",
        "happens", "remains", "brings", "marks",
    ]
)  # fmt: skip


def counts_something(text: str, end: int) -> bool:
    """Whether the word behind a number that ends at `end` looks like the things it counts."""
    found = _NEXT_WORD.match(text, end)
    if found is None:
        return False
    word = found[1]
    return word in _COUNTED or (len(word) > 2 and word.endswith("s") and word not in _NOT_COUNTED)


def ends_sentence(text: str, end: int) -> bool:
    """Whether a full stop before `end` also ends the sentence: a capital or nothing follows."""
    return _SENTENCE_END.match(text, end) is not None


def word_before(text: str, start: int) -> str:
    """The word directly before `start`, in lower case; "" if there is none."""
    word = _LAST_WORD.search(text, max(0, start - 24), start)
    return word[1].lower() if word else ""
