"""Dates, years, decades and times of day."""

import re

from gateway.text.english.context import counts_something, starts_sentence, word_before
from gateway.text.english.spoken import cardinal, decade, either, ordinal, year
from gateway.text.english.units import UNIT

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November",
    "December",
)  # fmt: skip
MONTH_BY_NAME = {name: name for name in _MONTHS} | {name[:3]: name for name in _MONTHS} | {"Sept": "September"}

_MONTH = rf"(?:{either(*MONTH_BY_NAME)})(?![A-Za-z])\.?"
_YEAR = r"(?:1[1-9][0-9]{2}|20[0-9]{2}|(?<=year )10[0-9]{2})"
_DAY = r"(?:0?[1-9]|[12][0-9]|3[01])"
_END = r"(?![\w%/-]|[.,:][0-9])"

_DATE = re.compile(
    r"(?<![\w./:$£€-])(?:"
    rf"(?P<iso_year>[12][0-9]{{3}})[-/](?P<iso_month>0?[1-9]|1[0-2])[-/](?P<iso_day>{_DAY})"
    rf"(?:(?P<iso_time>T(?=[0-9]{{2}}:[0-9]{{2}}))|{_END})"
    rf"|(?P<first>[0-9]{{1,2}})(?P<sign>[/.-])(?P<second>[0-9]{{1,2}})(?P=sign)"
    rf"(?P<short_year>[12][0-9]{{3}}|[0-9]{{2}}){_END}"
    rf"|(?P<month>{_MONTH})[ ](?:the[ ])?(?P<day>{_DAY})(?:st|nd|rd|th)?"
    rf"(?:[ ]?-[ ]?(?P<last_day>{_DAY})(?:st|nd|rd|th)?)?"
    rf"(?:(?P<comma>,)?[ ](?P<md_year>{_YEAR}))?{_END}"
    rf"|(?:the[ ])?(?P<day_first>{_DAY})(?:st|nd|rd|th)?[ ](?:of[ ])?"
    rf"(?P<dm_month>{_MONTH})(?:,?[ ](?P<dm_year>{_YEAR}))?{_END}"
    rf"|(?P<my_month>{_MONTH}),?[ ](?P<my_year>{_YEAR}){_END}"
    r")"
)
_TIME = re.compile(
    r"(?<![\w:.,$£€])"
    r"(?:(?P<start_hour>[0-9]{1,2})[ ]?-[ ]?(?=[0-9]{1,2}(?::[0-5][0-9])?[ ]?[AaPp]\.?[Mm]\b))?"
    r"(?P<hour>[01]?[0-9]|2[0-4])(?::(?P<minute>[0-5][0-9])(?::(?P<second>[0-5][0-9])(?:\.[0-9]{1,6})?)?)?"
    r"(?:[ ]?(?P<half>[AaPp])(?:[Mm](?![\w.])|[Mm](?=\.(?:\W|$))|\.[ ]?[Mm]\b\.?)"
    # Without AM or PM there must be minutes.
    r"|(?P<zulu>Z)?(?<=[0-9Z])(?<=[:0-9Z]{4}))"
    r"(?:[ ]?-[ ]?(?P<to>(?=[0-9]{1,2}(?::[0-9]{2}|[ ]?[AaPp]\.?[Mm])))|(?![\w:]))"
)
# "the 90s" are years, "90s" alone are seconds.
_DECADE = re.compile(
    r"(?<![\w.,$£€-])(?:(?P<signal>(?i:the|early|mid|late|his|her|their|my|your|our)[ -])"
    r"|(?P<apostrophe>'|(?<=0s[ ]and[ ])))?"
    r"(?P<decade>(?P<century>1[1-9]|20)?[0-9]0)'?s\b"
)
_YEARS = re.compile(
    rf"(?<![\w.,$£€\#+:/-])(?P<year>{_YEAR})(?:-(?P<to>{_YEAR}|[0-9]{{2}}))?(?!-?\w|[%°$£€\u00b2]|[.,:/][0-9])"
)
_NOT_A_YEAR = re.compile(rf"[ ]?(?:[x×*÷/+=<>^]|(?:{UNIT})(?!\w)|[A-Z]{{3}}\b)")
_YEAR_SIGNALS = frozenset(
    [
        "in", "since", "of", "from", "by", "until", "till", "before", "after", "during", "year", "circa",
        "around",
        "between", "and", "early", "late", "mid", "spring", "summer", "autumn", "fall", "winter", "season",
        "to",
        "through", "copyright", "q1", "q2", "q3", "q4",
    ]
)  # fmt: skip


def expand(text: str) -> str:
    """Dates and times of day as they are said; a year keeps its number if it counts something."""
    text = _DATE.sub(_speak_date, text)
    text = _TIME.sub(_speak_time, text)
    text = _DECADE.sub(_speak_decade, text)
    return _YEARS.sub(_speak_years, text)


def _speak_date(found: re.Match[str]) -> str:
    if found["iso_year"]:
        spoken = _date(int(found["iso_year"]), int(found["iso_month"]), int(found["iso_day"]))
        return f"{spoken} at " if found["iso_time"] else spoken
    if found["first"]:
        return _numeric_date(found)
    if found["month"]:
        days = ordinal(int(found["day"]))
        if found["last_day"]:
            days += f" to {ordinal(int(found['last_day']))}"
        tail = f"{found['comma'] or ''} {year(int(found['md_year']))}" if found["md_year"] else ""
        return f"{_month(found['month'])} {days}{tail}"
    if found["day_first"]:
        tail = f" {year(int(found['dm_year']))}" if found["dm_year"] else ""
        return f"the {ordinal(int(found['day_first']))} of {_month(found['dm_month'])}{tail}"
    return f"{_month(found['my_month'])} {year(int(found['my_year']))}"


def _numeric_date(found: re.Match[str]) -> str:
    """Month first, as in the United States, unless that is impossible; day first with dots."""
    first, second, written_year = int(found["first"]), int(found["second"]), int(found["short_year"])
    month, day = (second, first) if found["sign"] == "." or first > 12 else (first, second)
    if not (1 <= month <= 12 and 1 <= day <= 31) or (found["sign"] == "." and written_year < 100):
        return found[0]
    if written_year < 100:
        written_year += 2000 if written_year < 70 else 1900
    return _date(written_year, month, day)


def _date(number_of_year: int, month: int, day: int) -> str:
    return f"{_MONTHS[month - 1]} {ordinal(day)}, {year(number_of_year)}"


def _month(written: str) -> str:
    return MONTH_BY_NAME[written.rstrip(".")]


def _speak_time(found: re.Match[str]) -> str:
    hour, half = int(found["hour"]), found["half"]
    if found["minute"] is None and half is None:
        return found[0]
    minute = int(found["minute"] or 0)
    spoken = f"{cardinal(int(found['start_hour']))} to " if found["start_hour"] else ""
    spoken += cardinal(hour)
    if minute:
        spoken += f" oh {cardinal(minute)}" if minute < 10 else f" {cardinal(minute)}"
    elif not half:
        spoken += " o'clock" if 1 <= hour <= 12 else " hundred"
    if found["second"] and int(found["second"]):
        second = int(found["second"])
        spoken += f" and {cardinal(second)} second{'' if second == 1 else 's'}"
    if half:
        spoken += f" {half.upper()}M"
        if found[0].endswith(".") and starts_sentence(found.string, found.end()):
            spoken += "."
    if found["zulu"]:
        spoken += " UTC"
    return f"{spoken} to " if found["to"] is not None else spoken


def _speak_decade(found: re.Match[str]) -> str:
    if not (found["signal"] or found["apostrophe"] is not None or found["century"]):
        return found[0]
    return (found["signal"] or "") + decade(int(found["decade"]))


def _speak_years(found: re.Match[str]) -> str:
    text = found.string
    if found["to"]:
        last = int(found["to"])
        return f"{year(int(found['year']))} to {year(last) if last > 99 or last < 10 else cardinal(last)}"
    before = word_before(text, found.start())
    if _NOT_A_YEAR.match(text, found.end()) or before in {"usd", "eur", "gbp", "number", "x", "times"}:
        return found[0]
    if counts_something(text, found.end()) and before not in _YEAR_SIGNALS:
        return found[0]
    return year(int(found["year"]))
