"""What the neighbours of a number or an abbreviation say about it."""

import re

_NEXT_WORD = re.compile(r"[ ]([a-z][a-z'-]{0,30})")
_LAST_WORD = re.compile(r"([A-Za-z0-9.]{1,20})[ ]$")
_SENTENCE_END = re.compile(r"\s{0,3}$|[ ][\"'(]?[A-Z]|\n")

_SENTENCE_START = re.compile(
    r"\s{0,3}$|\n|[ ][\"']|[ ](?:The|A|An|I|You|He|She|It|We|They|This|That|"
    r"These|Those|There|Then|But|And|So|If|In|"
    r"On|At|When|What|Who|Why|How|Where|My|His|Her|Our|Their|No|Yes|Not|Is|Are|Do|Please|Now|After|Before|For)\b"
)

_COUNTED = frozenset(
    {"people", "men", "women", "children", "percent", "million", "billion", "thousand", "times", "more"}
)
# Verbs and function words in -s: they follow "the code 1234" or "1999" without being counted.
_NOT_COUNTED = frozenset(
    [
        "is", "was", "as", "has", "does", "its", "his", "this", "us", "thus", "yes", "plus", "minus",
        "expires",
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


def starts_sentence(text: str, position: int) -> bool:
    """Whether a sentence clearly starts at `position`: a capital alone may be a name ("9 a.m. Monday")."""
    return _SENTENCE_START.match(text, position) is not None


def word_before(text: str, start: int) -> str:
    """The word directly before `start`, in lower case; "" if there is none."""
    word = _LAST_WORD.search(text, max(0, start - 24), start)
    return word[1].lower() if word else ""
