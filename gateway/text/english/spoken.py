"""Numbers as English words, in the short American form: "one hundred five", no commas, no "and"."""

import re
from functools import lru_cache

from num2words import num2words

NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})++(?![0-9])|[0-9]++)(?:\.[0-9]++)?|(?<![\w.])\.[0-9]++"
"""An unsigned number as it is written: "7", "1,250", "3.14", ".5", "0042"."""

_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SCALES = ("", " thousand", " million", " billion", " trillion")

_MAX_COUNT_DIGITS = 15
_MAX_PLAIN_DIGITS = 9
"""More digits without a separator are a telephone or serial number, unless they end in zeros."""


def digits(text: str) -> str:
    """Each digit a word; everything else is dropped."""
    return " ".join(_DIGITS[int(char)] for char in text if char in "0123456789")


def cardinal(value: int) -> str:
    """The words of a whole number below a quadrillion, which may be negative."""
    if value < 0:
        return f"minus {cardinal(-value)}"
    if value < 1000:
        return _below_thousand(value)
    groups: list[str] = []
    for scale in _SCALES:
        value, group = divmod(value, 1000)
        if group:
            groups.append(_below_thousand(group) + scale)
    return " ".join(reversed(groups))


def ordinal(value: int) -> str:
    """ "first", "twenty-first", "one hundred first"."""
    head, rest = divmod(value, 100)
    if head and rest:
        return f"{cardinal(head * 100)} {_small_ordinal(rest)}"
    return _small_ordinal(value) if value < 100 else f"{cardinal(value)}th"


def year(value: int) -> str:
    """The words of a year from 1 to 9999: "nineteen oh five", "two thousand five", "twenty twenty-four"."""
    if value < 1000 or 2000 <= value < 2010 or value % 1000 == 0:
        return cardinal(value)
    century, rest = divmod(value, 100)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {f'oh {cardinal(rest)}' if rest < 10 else cardinal(rest)}"


def decade(value: int) -> str:
    """ "nineteen nineties", "twenty tens", "two thousands", "nineties" for a value below 100."""
    return plural(year(value) if value >= 100 else cardinal(value))


def plural(words: str) -> str:
    """The regular plural of the last word."""
    if words.endswith("y"):
        return f"{words[:-1]}ies"
    return words + ("es" if words.endswith(("x", "ch", "s")) else "s")


def number(written: str) -> str:
    """The words of a NUMBER. Leading zeros and absurd lengths are read digit by digit."""
    whole, _, fraction = written.partition(".")
    count = whole.replace(",", "")
    if not count:
        return f"point {digits(fraction)}"
    words = cardinal(int(count)) if _is_count(whole, count) else digits(count)
    return f"{words} point {digits(fraction)}" if fraction else words


def is_one(written: str) -> bool:
    """Whether a unit after this NUMBER stands in the singular."""
    return written.rstrip("0").rstrip(".") == "1" if "." in written else written == "1"


def _is_count(whole: str, count: str) -> bool:
    if len(count) > _MAX_COUNT_DIGITS or (count[0] == "0" and len(count) > 1):
        return False
    return len(count) <= _MAX_PLAIN_DIGITS or "," in whole or count.endswith("000")


@lru_cache(maxsize=1000)
def _below_thousand(value: int) -> str:
    return str(num2words(value)).replace(" and ", " ")


@lru_cache(maxsize=100)
def _small_ordinal(value: int) -> str:
    return str(num2words(value, to="ordinal"))


def either(*words: str) -> str:
    """A pattern for any of `words`, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
