"""Signs between operands: sums, comparisons, ranges, ratios and fractions."""

import re

from gateway.text.english.spoken import cardinal, ordinal

# An operand is a number, a single letter or a bracket.
_LEFT = r"(?:(?<=[0-9)%²³°])|(?<=\b[A-Za-z]))"
_RIGHT = r"(?=[$£€]?\.?[0-9(]|[A-Za-z]\b|[-−+√][0-9A-Za-z(])"

_ALWAYS = {
    "≠": "is not equal to", "≤": "less than or equal to", "≥": "greater than or equal to",
    "≈": "is approximately",
    "≡": "is equivalent to", "÷": "divided by", "±": "plus or minus", "√": "the square root of",
    "∞": "infinity",
    "→": "to", "⇒": "to", "∑": "sum", "∈": "in", "·": "times", "⋅": "times", "∆": "delta", "−": "minus",
}  # fmt: skip
_BETWEEN = {
    "==": "equals", "=": "equals", "!=": "is not equal to", "<>": "is not equal to",
    "<=": "less than or equal to",
    ">=": "greater than or equal to", "<": "less than", ">": "greater than", "*": "times", "×": "times",
    "/": "divided by", "-": "minus", "^": "to the power of", "**": "to the power of", "~": "about",
}  # fmt: skip

_OPERATOR = re.compile(
    # Sizes: "4x4", "3x4x5"; a sum if an equals sign follows.
    r"(?<=[0-9])(?P<by>[xX×])(?=[0-9])"
    rf"|{_LEFT}[ ](?P<times>[xX])[ ]{_RIGHT}"
    r"|(?<=[0-9])(?P<fold>[xX])(?=[ ][a-z]{2}|[.,;:!?)]|$)"
    # A stroke between two numbers is a fraction or a ratio; with blanks it divides.
    r"|(?<![\w/.,$£€-])(?:(?P<whole>[0-9]{1,6})[ ])?(?P<above>[0-9]{1,4})/"
    r"(?P<below>[0-9]{1,4})(?![\w/%-]|[.,:][0-9])(?P<result>(?=[ ]?[=<>]))?"
    rf"|{_LEFT}[ ](?P<spaced>[/-])[ ]{_RIGHT}"
    # A hyphen between two numbers is a range; a difference if an equals sign follows.
    r"|(?<![A-Za-z-][0-9])(?<![A-Za-z][0-9]{2})(?<![A-Za-z][0-9]{3})(?<=[0-9%])(?P<range>-)"
    r"(?=[$£€]?[0-9][0-9.,]{0,20}+(?!-|\w*[A-Za-z])(?P<difference>[ ]?=)?|[$£€]?[0-9])"
    r"|(?<=[0-9][kKmMbBtT])(?P<money_range>-)(?=[$£€][0-9])"
    r"|(?<=[0-9]):(?P<minutes>(?=[0-5][0-9](?![0-9])))"
    r"|(?<=[0-9])(?:[ ]:[ ]|:)(?P<ratio>(?=[0-9]))"
    r"|(?<=[0-9])(?P<exponent>[eE][+-]?)(?=[0-9]{1,3}(?!\w))"
    r"|(?<=[a-z])/(?P<per>(?=(?:hour|day|week|month|year|second|minute|night|person)\b))"
    r"|\#(?P<count>(?=[ ]of\b))"
    rf"|{_LEFT}\^(?P<power>[23])(?!\w)"
    rf"|{_LEFT}[ ]?(?P<between>\*\*|==|!=|<>|<=|>=|[=<>*×^])[ ]?{_RIGHT}"
    r"|(?<=[\w)])[ ](?P<worded>==|!=|<=|>=|=)[ ](?=[\w(\"'-])|(?<=\w)(?P<assigned>=)(?=\w)"
    r"|(?P<arrow>[-=]>)"
    r"|(?<![\w)])(?P<compared><=|>=|[<>])[ ]?(?=[$£€]?\.?[0-9])"
    r"|(?<![\w).,%-])(?P<sign>[-−])(?=[$£€]?\.?[0-9])"
    r"|~[ ]?(?P<about>(?=[$£€]?[0-9]))"
    r"|(?P<plusses>(?<=[A-Za-z])\+\+)|(?P<plus>\+)"
    rf"|(?P<always>[{''.join(_ALWAYS)}])"
    r"|(?P<and>(?<!&)&(?!&))|(?P<several>&)|(?<=\w)(?P<sharp>\#)(?!\w)"
    r"|(?P<vulgar>(?:[0-9]{1,6}[ ]?)?[¼½¾⅐-⅞])"
)  # fmt: skip

_VULGAR = {
    "½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5), "⅗": (3, 5),
    "⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅐": (1, 7), "⅛": (1, 8), "⅜": (3, 8), "⅝": (5, 8), "⅞": (7, 8),
    "⅑": (1, 9), "⅒": (1, 10),
}  # fmt: skip
_READ_AS_PAIR = frozenset({(24, 7), (9, 11), (7, 11), (50, 50), (60, 40), (80, 20), (20, 20), (365, 7)})
_FRACTION_BELOW = frozenset({2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 32, 64})
_RATING_BELOW = frozenset({10, 20, 100})


def expand(text: str) -> str:
    """Signs as words, the numbers beside them left for later."""
    return _OPERATOR.sub(_speak, text)


def _speak(found: re.Match[str]) -> str:  # noqa: PLR0911 - one branch a kind of sign
    kind = found.lastgroup
    sign = found[0].strip()
    if kind == "by":
        return " times " if _is_sum(found.string, found.end()) else " by "
    if kind in {"above", "below", "whole", "result"}:
        return _fraction(found)
    if kind == "difference":
        return " minus "
    if kind == "power":
        return " squared" if found["power"] == "2" else " cubed"
    if kind == "exponent":
        return f" times ten to the power of {'minus ' if '-' in sign else ''}"
    if kind == "vulgar":
        return _vulgar(sign)
    if kind == "always":
        return f" {_ALWAYS[sign]} "
    if kind in {"spaced", "between", "worded", "assigned", "compared"}:
        return f" {_BETWEEN[sign]} "
    return _FIXED[kind or ""]


_FIXED = {
    "times": " times ", "fold": " times", "ratio": " to ", "minutes": " ", "range": " to ",
    "money_range": " to ",
    "arrow": " to ", "sign": "minus ", "about": "about ", "plusses": " plus plus", "plus": " plus ",
    "per": " per ",
    "count": "number", "and": " and ", "several": " ", "sharp": " sharp",
}  # fmt: skip


def _is_sum(text: str, end: int) -> bool:
    return re.match(r"[0-9.,]{1,20}[ ]?=", text[end : end + 24]) is not None


def _fraction(found: re.Match[str]) -> str:
    above, below = int(found["above"]), int(found["below"])
    whole = f"{found['whole']} " if found["whole"] else ""
    if found["result"] is not None:
        return f"{whole}{above} divided by {below}"
    if (above, below) in _READ_AS_PAIR:
        return f"{whole}{above} {below}"
    if above < below and below in _FRACTION_BELOW:
        return f"{found['whole']} and {_part(above, below)}" if whole else _part(above, below)
    return (
        f"{whole}{above} out of {below}"
        if below in _RATING_BELOW and above <= below
        else f"{whole}{above} over {below}"
    )


def _part(above: int, below: int) -> str:
    """ "one half", "three quarters", "seven eighths"."""
    name = {2: "half", 4: "quarter"}.get(below) or ordinal(below)
    return f"{cardinal(above)} {name if above == 1 else name + 's'}"


def _vulgar(written: str) -> str:
    above, below = _VULGAR[written[-1]]
    whole = written[:-1].strip()
    if not whole:
        return _part(above, below)
    part = f"a {_part(above, below)[4:]}" if above == 1 else _part(above, below)
    return f"{whole} and {part}"
