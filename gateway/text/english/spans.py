"""Spans of days, months, quarters and letters: "Mon-Fri", "Jan-Mar", "Q1-Q3", "A-Z"."""

import re

from gateway.text.english.dates import MONTH_BY_NAME
from gateway.text.english.spoken import either, ordinal

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAY_BY_NAME = {name: name for name in _DAYS} | {name[:3]: name for name in _DAYS}
_DAY_BY_NAME |= {"Tues": "Tuesday", "Thur": "Thursday", "Thurs": "Thursday", "Weds": "Wednesday"}

_END = r"(?![\w-]|/[0-9])"
_DASH = r"(?:[ ]?[-—][ ]?)"
_DAY = rf"(?:{either(*_DAY_BY_NAME)})(?![A-Za-z])\.?"
_MONTH = rf"(?:{either(*MONTH_BY_NAME)})(?![A-Za-z])\.?"
_SPAN = re.compile(
    rf"(?<![\w-])(?:(?P<day>{_DAY}){_DASH}(?P<last_day>{_DAY}){_END}"
    rf"|(?P<month>{_MONTH}){_DASH}(?P<last_month>{_MONTH}){_END}"
    # "March 3 - April 5"
    rf"|(?P<date>{_MONTH}[ ][0-9]{{1,2}}(?:st|nd|rd|th)?){_DASH}(?={_MONTH}[ ][0-9]{{1,2}})"
    # "5-7 March"
    rf"|(?:the[ ])?(?P<first_day>[0-9]{{1,2}})(?:st|nd|rd|th)?{_DASH}"
    rf"(?=[0-9]{{1,2}}(?:st|nd|rd|th)?[ ](?:of[ ])?{_MONTH}(?!\w))"
    rf"|(?P<part>[QH][1-4]){_DASH}(?P<last_part>[QH][1-4]){_END}"
    rf"|(?P<letters>A-Z|a-z){_END}"
    # A season or financial year: "2019/20".
    rf"|(?P<year>(?:19|20)[0-9]{{2}})/(?P<next_year>(?:(?:19|20)[0-9]{{2}}|[0-9]{{2}})){_END})"
)


def expand(text: str) -> str:
    """Spans with "to" between their ends, short names in full."""
    return _SPAN.sub(_speak, text)


def _speak(found: re.Match[str]) -> str:  # noqa: PLR0911 - one branch a kind of span
    if found["day"]:
        return _between(found["day"], found["last_day"], _DAY_BY_NAME)
    if found["month"]:
        return _between(found["month"], found["last_month"], MONTH_BY_NAME)
    if found["date"]:
        return f"{found['date']} to "
    if found["first_day"]:
        return f"the {ordinal(int(found['first_day']))} to "
    if found["part"]:
        return f"{found['part']} to {found['last_part']}"
    if found["letters"]:
        return f"{found['letters'][0]} to {found['letters'][-1]}"
    follows = int(found["next_year"][-2:]) == (int(found["year"]) + 1) % 100
    if not follows:
        return found[0]
    return f"{found['year']}-{found['next_year'] if found['next_year'] != '00' else int(found['year']) + 1}"


def _between(first: str, last: str, names: dict[str, str]) -> str:
    return f"{names[first.rstrip('.')]} to {names[last.rstrip('.')]}"
