"""Fractions that stand before a unit or a noun, and strokes that mean "out of"."""

import re

from gateway.text.english.context import word_before
from gateway.text.english.spoken import cardinal, ordinal

# "5/8 in." and "5/8 in thick", but "1/2 in the morning".
_INCH = (
    r"[ ]?in\b(?:\.(?=[ ][a-z])|(?=[.,;:)]|\s*$)"
    r"|(?=[ ](?:thick|wide|long|deep|tall|high|diameter|pipe|bolt|screw|drill|nail|hole|plywood|socket|thread|x)\b))"
    r'|"(?!\w)'
)
_FRACTION = re.compile(
    r"(?<![\w/.,$£€-])(?:(?P<whole>[0-9]{1,4})[ -])?(?P<above>[0-9]{1,3})/(?P<below>[1-9][0-9]{0,3})"
    r"(?P<ending>(?:st|nd|rd|th)s?\b)?"
    rf"(?:(?P<inch>{_INCH})|-(?P<noun>(?=[a-z]{{3}}[a-z-]))|(?P<stars>(?=[ ]stars?\b))"
    r"|(?P<share>(?=[ ]of[ ](?:an?|the|all|its|his|her|their|our|your|my|these|those|people|them|us|it)\b))"
    r"|(?P<exposure>[ ]?(?:s|sec|seconds?)(?!\w))|)(?:(?<=-)|(?![\w%/-]|[.,:][0-9]))"
)
_VULGAR_INCH = re.compile(rf"(?<=[¼½¾⅐-⅞])(?:{_INCH})")
_PAGES = frozenset(
    {"page", "slide", "part", "step", "question", "chapter", "episode", "lesson", "item", "day", "round"}
)
_QUOTES_BACK = 200


def expand(text: str) -> str:
    """Fractions whose neighbours say how they are read; the others are left to the operators."""
    return _VULGAR_INCH.sub(" inch", _FRACTION.sub(_speak, text))


def _speak(found: re.Match[str]) -> str:
    above, below = int(found["above"]), int(found["below"])
    whole = found["whole"]
    before = word_before(found.string, found.start())
    kind = found.lastgroup
    if kind == "stars":
        return f"{_spoken_whole(whole)}{above} out of {below}"
    if before in _PAGES and not whole and above <= below and kind == "below":
        return f"{above} of {below}"
    is_inch = kind == "inch" and not _closes_quotation(found)
    is_fraction = is_inch or kind in {"ending", "noun", "exposure", "share"} or (whole and "-" in found[0])
    if not (is_fraction and 0 < above < below):
        return found[0]
    spoken = part(above, below)
    if whole:
        spoken = f"{cardinal(int(whole))} and {spoken}"
    if is_inch:
        many = whole is not None
        return f"{spoken} {'inches' if many else 'inch'}"
    if kind == "exposure":
        return f"{spoken} of a second"
    return f"{spoken}{found['inch'] or ''}{' ' if kind == 'noun' else ''}"


def _spoken_whole(whole: str | None) -> str:
    return f"{whole} " if whole else ""


def _closes_quotation(found: re.Match[str]) -> bool:
    """Whether the sign behind the fraction ends a quotation that began a little before."""
    if found["inch"] != '"':
        return False
    return found.string.count('"', max(0, found.start() - _QUOTES_BACK), found.start()) % 2 == 1


def part(above: int, below: int) -> str:
    """ "one half", "three quarters", "seven eighths", "one hundredth"."""
    if below == 1:
        return cardinal(above)
    name = {2: "half", 4: "quarter", 100: "hundredth", 1000: "thousandth"}.get(below) or ordinal(below)
    if above == 1:
        return f"one {name}"
    return f"{cardinal(above)} {'halves' if name == 'half' else name + 's'}"
