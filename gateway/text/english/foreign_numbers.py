"""Numbers as they are written outside English: decimal commas, thousands apart by blanks, dots or apostrophes.

English text has them in prices and measures that were copied. They become the English way of writing, where
nothing else can be meant.
"""

import re

from gateway.text.english.spoken import either
from gateway.text.english.units import UNIT

_MONEY = either("€", "£", "$", "¥", "EUR", "CHF", "USD", "GBP", "zł", "kr")
_BEHIND = rf"[ ]?(?:(?:{_MONEY}|[%°‰]|{UNIT})(?!\w)|euros?\b|percent\b|(?:million|billion)\b)"

_NUMBER = re.compile(
    r"(?<![\w.,'/(\[-])(?:"
    # "1.234,56", "12 345,67": both signs leave no doubt.
    r"(?P<both>[1-9][0-9]{0,2}(?P<sign>[ .'])[0-9]{3}(?:(?P=sign)[0-9]{3}){0,4}+,[0-9]{1,2})(?!\w|[,.][0-9])"
    # "3,50 €" and "€3,50"; three digits behind a comma are thousands.
    rf"|(?P<decimal>[0-9]{{1,9}},[0-9]{{1,2}})(?={_BEHIND})"
    r"|(?P<small>0,[0-9]{1,4})(?!\w|[,.][0-9]|,)"
    # "1 000 000", "10 000", "1'000": nothing else ends so, or has so many groups of three.
    r"|(?P<blanks>[1-9][0-9]{0,2}(?:[ ][0-9]{3}){0,4}[ ]000)(?![\w'-]|[ ][0-9]|[.,][0-9])"
    rf"|(?P<counted>[1-9][0-9]{{0,2}}(?:[ ][0-9]{{3}}){{1,4}}+)(?={_BEHIND})"
    r"|(?P<apostrophes>[1-9][0-9]{0,2}(?:'[0-9]{3})++)(?![\w'])"
    rf"|(?P<dots>[1-9][0-9]{{0,2}}(?:\.[0-9]{{3}}){{2,4}}+)(?={_BEHIND}))"
    r"|(?P<money>(?<![A-Za-z$£€])(?:€|£|\$|EUR|CHF)[ ]?)(?P<amount>[0-9]{1,3}(?:[. ][0-9]{3})*+,[0-9]{2}"
    r"|[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,4}+|[1-9][0-9]{0,2}(?:[ ][0-9]{3}){0,4}[ ]000)(?!\w|[,.][0-9])"
)
_THREE = re.compile(r"(?<=[0-9])[ .'](?=[0-9]{3}(?![0-9]))")


def expand(text: str) -> str:
    """Numbers in the English way of writing, with commas between thousands and a point before decimals."""
    return _NUMBER.sub(_rewrite, text)


def _rewrite(found: re.Match[str]) -> str:
    written = found["amount"] or found[0]
    whole, _, decimals = written.partition(",")
    english = _THREE.sub(",", whole) + (f".{decimals}" if decimals else "")
    return f"{found['money'] or ''}{english}"
