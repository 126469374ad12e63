"""Amounts of something: money, measures, percentages, temperatures, heights and durations."""

import re

from gateway.text.english.context import counts_something, word_before
from gateway.text.english.spoken import NUMBER, cardinal, either, is_one, number
from gateway.text.english.units import ATTACHED, PER, PER_UNIT, STANDALONE, UNIT, name

_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"), "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"), "¥": ("yen", "yen", "", ""), "₹": ("rupee", "rupees",
    "paisa", "paise"),
    "₩": ("won", "won", "", ""), "₽": ("ruble", "rubles", "kopeck", "kopecks"), "₿": ("bitcoin",
    "bitcoins", "", ""),
    "₺": ("lira", "liras", "", ""), "₴": ("hryvnia", "hryvnias", "", ""), "₪": ("shekel", "shekels", "", ""),
    "US$": ("US dollar", "US dollars", "cent", "cents"), "A$": ("Australian dollar", "Australian dollars",
    "cent", "cents"),
    "C$": ("Canadian dollar", "Canadian dollars", "cent", "cents"), "HK$": ("Hong Kong dollar",
    "Hong Kong dollars", "cent", "cents"),
    "NZ$": ("New Zealand dollar", "New Zealand dollars", "cent", "cents"), "R$": ("real", "reais", "", ""),
    "USD": ("US dollar", "US dollars", "cent", "cents"), "EUR": ("euro", "euros", "cent", "cents"),
    "GBP": ("pound", "pounds", "penny", "pence"), "JPY": ("yen", "yen", "", ""), "CHF": ("Swiss franc",
    "Swiss francs", "", ""),
    "CAD": ("Canadian dollar", "Canadian dollars", "cent", "cents"), "AUD": ("Australian dollar",
    "Australian dollars", "cent", "cents"),
    "CNY": ("yuan", "yuan", "", ""), "INR": ("rupee", "rupees", "paisa", "paise"), "BTC": ("bitcoin",
    "bitcoins", "", ""),
}  # fmt: skip
_CURRENCY = either(*_CURRENCIES)
_CURRENCY_BEHIND = either("€", "£", "$", "¥", "USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "CNY", "INR", "BTC")

_MAGNITUDES = {
    "k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "mln": "million",
    "MM": "million",
    "b": "billion", "B": "billion", "bn": "billion", "t": "trillion", "T": "trillion", "tn": "trillion",
}  # fmt: skip
_SHORT = rf"[ ]?(?:{either(*_MAGNITUDES)})(?!\w)"
_LONG = r"[ ](?:thousand|million|billion|trillion)(?!\w)"
_MAGNITUDE = rf"(?:{_LONG}|{_SHORT})"
_PER = rf"(?:[ ]?/[ ]?(?P<{{}}>{PER_UNIT})(?![A-Za-z]))?"

_START = r"(?<![\w.,$£€])"
_RANGE = rf"(?:{NUMBER})(?:[ ]to[ ](?:{NUMBER}))?"

_QUANTITY = re.compile(
    rf"(?P<currency>(?<![A-Za-z$£€])(?:{_CURRENCY}))[ ]?(?P<amount>{NUMBER})(?P<magnitude>{_MAGNITUDE})?"
    rf"(?:[ ]to[ ](?:(?P=currency)[ ]?)?(?P<amount_to>{NUMBER})(?P<magnitude_to>{_MAGNITUDE})?"
    rf"(?![\w%]|[ ]people\b|[ ][a-z]{{2,20}}s\b)(?![ ]?(?:{UNIT})\b))?"
    + _PER.format("money_per")
    + rf"|{_START}(?P<amount_behind>{NUMBER})(?P<magnitude_behind>{_MAGNITUDE})?[ ]?"
    rf"(?P<currency_behind>{_CURRENCY_BEHIND})(?!\w)"
    rf"|{_START}(?P<cents>{NUMBER})[ ]?¢"
    rf"|{_START}(?P<percent>{_RANGE})[ ]?(?P<percent_sign>[%‰])"
    rf"|{_START}(?P<degrees>{_RANGE})[ ]?[°º](?:[ ]?(?P<scale>[CFK])(?!\w))?"
    r"|(?<![\w.,])(?P<feet>[0-9]{1,2})(?:['′]|[ ]?ft\.?)[ ]?(?P<inches>[0-9]{1,2})(?:[\"″]|[ ]?in\b)"
    r"|(?<![\w.,])(?:(?P<hours>[0-9]{1,3})h[ ]?)?(?P<minutes>[0-9]{1,3})m(?:in)?[ ]?"
    r"(?P<seconds>[0-9]{1,2})s(?!\w)"
    r"|(?<![\w.,])(?P<hours_only>[0-9]{1,3})h[ ]?(?P<minutes_only>[0-9]{1,2})(?:m|min)?(?!\w)"
    rf"|{_START}(?P<measure>{_RANGE})(?:(?P<sign>[ ]?|-)(?P<unit>{UNIT})|(?P<attached>{either(*ATTACHED)}))"
    r"(?P<power>[²³]|\^?[23](?![0-9]))?" + _PER.format("per")
    + r"(?P<per_power>[²³]|\^?[23])?(?!\w)(?:\.(?=[ ][a-z]))?"
    rf"|{_START}(?P<thousands>{NUMBER})k(?!\w)"
    rf"|(?<![\w/])(?P<alone>{either(*STANDALONE)})(?![\w/])"
)  # fmt: skip

_NOUN = re.compile(r"[ ][a-z]")
# Behind "the 5 V" stands a noun, unless the word is one of these or looks like a verb or a plural.
_NOUN_OF_IT = re.compile(
    r"[ ](?!(?:of|to|in|on|at|and|or|from|is|was|are|were|be|been|between|that|which|who|by|with|for|we|he|she|it|you"
    r"|they|below|above|away|long|wide|deep|high|tall|thick|apart|each|per|plus|minus|than|as|if|but|so|will|would|can"
    r"|could|may|might|must|should|has|had|have|not|too|more|less|the|a|an|his|her|its|our|my|your|their|into|onto|off"
    r"|over|under|up|down|out|when|while|before|after|since|until|because|then|there|here|left|ago|only|also|worth)\b)"
    r"[a-z]{2,20}(?<!ed)(?<!ing)(?<![^s]s)(?<!ly)(?![\w'])"
)
_DETERMINERS = frozenset({"the", "this", "that", "my", "our", "your", "his", "her", "their", "its", "every", "each"})
_MONEY_WORD = re.compile(r"[ ](?:dollars|euros|pounds|yen|francs|rupees|yuan|pesos|kroner|kronor)\b")

_SCALES = {"C": " Celsius", "F": " Fahrenheit", "K": " Kelvin"}
_POWERS = {"2": "square", "²": "square", "3": "cubic", "³": "cubic"}


def expand(text: str) -> str:
    """Quantities in words. "m" is million behind money or before what is counted, else metres."""
    return _QUANTITY.sub(_speak, text)


def _speak(found: re.Match[str]) -> str:  # noqa: PLR0911 - one branch a kind of quantity
    if found["currency"]:
        return _range_of_money(found) + _per(found["money_per"], "")
    if found["amount_behind"]:
        return _money(found["amount_behind"], found["magnitude_behind"], found["currency_behind"])
    if found["cents"]:
        return f"{number(found['cents'])} {'cent' if is_one(found['cents']) else 'cents'}"
    if found["percent"]:
        return f"{_numbers(found['percent'])} {'percent' if found['percent_sign'] == '%' else 'per mille'}"
    if found["degrees"]:
        unit = "degree" if is_one(found["degrees"]) else "degrees"
        return f"{_numbers(found['degrees'])} {unit}{_SCALES.get(found['scale'] or '', '')}"
    if found["feet"]:
        return " ".join((_count(found["feet"], "foot", "feet"), _count(found["inches"], "inch", "inches")))
    if found["minutes"]:
        return _duration(found["hours"], found["minutes"], found["seconds"])
    if found["hours_only"]:
        return _duration(found["hours_only"], found["minutes_only"], None)
    if found["measure"]:
        return _measure(found)
    if found["thousands"]:
        return f"{number(found['thousands'])} thousand"
    alone = found["alone"]
    return "kilometres per hour" if alone == "km/h" else name(alone, singular=False)


def _range_of_money(found: re.Match[str]) -> str:
    currency, magnitude = found["currency"], found["magnitude"]
    if not found["amount_to"]:
        return _money(found["amount"], magnitude, currency, adjective=_is_adjective(found))
    low = number(found["amount"]) + _magnitude(magnitude)
    return f"{low} to {_money(found['amount_to'], found['magnitude_to'], currency, in_range=True)}"


def _is_adjective(found: re.Match[str]) -> bool:
    """ "a $5 note" is a five dollar note, "the 5 km run" the five kilometre run."""
    text, end = found.string, found.end()
    before = word_before(text, found.start())
    if before in {"a", "an"}:
        return _NOUN.match(text, end) is not None
    return before in _DETERMINERS and _NOUN_OF_IT.match(text, end) is not None


def _money(
    amount: str, magnitude: str | None, currency: str, *, adjective: bool = False, in_range: bool = False
) -> str:
    one, many, cent, cents = _CURRENCIES[currency]
    whole, _, fraction = amount.partition(".")
    if len(fraction) == 2 and cent and not magnitude and not in_range:
        minor = int(fraction)
        spoken_minor = f"{cardinal(minor)} {cent if minor == 1 else cents}"
        if minor and not whole.strip("0,"):
            return spoken_minor
        major = f"{number(whole)} {one if whole == '1' or adjective else many}"
        return f"{major} and {spoken_minor}" if minor else major
    singular = adjective or (not magnitude and is_one(amount) and not in_range)
    return f"{number(amount)}{_magnitude(magnitude)} {one if singular else many}"


def _magnitude(sign: str | None) -> str:
    if not sign:
        return ""
    sign = sign.strip()
    return f" {_MAGNITUDES.get(sign, sign)}"


def _numbers(written: str) -> str:
    return " to ".join(number(part) for part in written.split(" to "))


def _count(written: str, one: str, many: str) -> str:
    return f"{cardinal(int(written))} {one if int(written) == 1 else many}"


def _duration(hours: str | None, minutes: str, seconds: str | None) -> str:
    parts = [_count(hours, "hour", "hours")] if hours else []
    parts.append(_count(minutes, "minute", "minutes"))
    if seconds:
        parts.append(_count(seconds, "second", "seconds"))
    return " ".join(parts)


def _measure(found: re.Match[str]) -> str:
    unit, written = found["unit"] or found["attached"], found["measure"]
    plain = not (found["power"] or found["per"])
    counted = counts_something(found.string, found.end()) if found["sign"] == "" else False
    if unit == "m" and plain and (counted or _MONEY_WORD.match(found.string, found.end())):
        return f"{_numbers(written)} million"
    hyphenated = found["sign"] == "-"
    words = name(unit, singular=hyphenated or is_one(written) or _is_adjective(found))
    power = f"{_POWERS[found['power'][-1]]} " if found["power"] else ""
    separator = "-" if hyphenated else " "
    return f"{_numbers(written)}{separator}{power}{words}" + _per(found["per"], found["per_power"] or "")


def _per(unit: str | None, power: str) -> str:
    if not unit:
        return ""
    if power and unit in {"s", "sec", "h", "min"}:
        return f" per {PER[unit]} {'squared' if _POWERS[power[-1]] == 'square' else 'cubed'}"
    return f" per {_POWERS[power[-1]] + ' ' if power else ''}{PER[unit]}"
