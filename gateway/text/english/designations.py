"""Numbers that belong to a name: models, standards, aircraft, seats."""

import re

from gateway.text.english.context import word_before
from gateway.text.english.spoken import cardinal, digits, year

_DESIGNATION = re.compile(
    r"(?<![\w.,$£€/'-])(?:(?P<name>[A-Z]{1,6}-?|[A-Za-z]{1,6}|[A-Z][a-z]{1,10}-)(?P<number>[1-9][0-9]{2,3})"
    r"(?P<tail>(?<=-[0-9]{4})-[0-9]{1,7}(?![\w-])|)(?![0-9]|[.,][0-9])"
    r"|(?P<aircraft>(?:Boeing|Airbus|Porsche)[ ]A?)(?P<type>[1-9][0-9]{2})(?P<series>-[1-9]00)?(?!\w)"
    r"|(?P<lines>480|720|1080|1440|2160)(?P<scan>[pi])(?=[0-9]{2,3}(?!\w)|(?!\w))"
    r"|(?P<place>[0-9]{1,3})(?P<seat>[A-F])(?!\w))"
)
# Letters before a number that count or measure.
_NO_NAMES = frozenset(
    ["v", "no", "nr", "pp", "p", "pg", "usd", "eur", "gbp", "jpy", "chf", "cad", "aud", "cny", "inr", "btc", "rs",
     "utc", "gmt", "ca", "c", "approx", "mid", "pre", "post", "sub", "non", "rmb", "krw", "sek", "nok", "dkk"]
)  # fmt: skip
_PLACES = frozenset(
    ["seat", "seats", "row", "room", "gate", "apartment", "apt", "unit", "flat", "suite", "figure", "table",
     "appendix", "exhibit", "section", "class", "grade", "block", "building", "house", "platform", "form", "part",
     "annex", "bus", "exit", "stand", "zone", "number", "step", "question", "problem", "and", "or"]
)  # fmt: skip


def expand(text: str) -> str:
    """ "RTX4090" -> "RTX forty ninety", "Boeing 747-400" -> "Boeing seven forty-seven four hundred"."""
    return _DESIGNATION.sub(_speak, text)


def _speak(found: re.Match[str]) -> str:
    if found["aircraft"]:
        series = f" {in_pairs(int(found['series'][1:]))}" if found["series"] else ""
        return (
            f"{found['aircraft'].rstrip('A')}{_model_letter(found['aircraft'])}{in_pairs(int(found['type']))}{series}"
        )
    if found["lines"]:
        after = " " if found.string[found.end() : found.end() + 1].isdigit() else ""
        return f"{in_pairs(int(found['lines']))} {found['scan'].upper()}{after}"
    if found["seat"]:
        is_place = word_before(found.string, found.start()) in _PLACES
        return f"{cardinal(int(found['place']))} {found['seat']}" if is_place else found[0]
    if found["name"].rstrip("-").lower() in _NO_NAMES:
        return found[0]
    after = " " if found.string[found.end() : found.end() + 1].isalpha() else ""
    tail = f", {digits(found['tail'])}" if found["tail"] else ""
    # "A three twenty" would be heard as the article.
    between = "-" if found["name"].rstrip("-") == "A" else " "
    return f"{found['name'].rstrip('-')}{between}{in_pairs(int(found['number']))}{tail}{after}"


def _model_letter(aircraft: str) -> str:
    return "A-" if aircraft.endswith("A") else ""


def in_pairs(number: int) -> str:
    """The words of a number from 100 to 9999 that names: "one oh one", "three twenty", "forty ninety"."""
    if number >= 1000:
        return year(number)
    hundreds, rest = divmod(number, 100)
    if rest == 0:
        return f"{cardinal(hundreds)} hundred"
    return f"{cardinal(hundreds)} {f'oh {cardinal(rest)}' if rest < 10 else cardinal(rest)}"
