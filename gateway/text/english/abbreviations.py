"""Shortened words and titles."""

import re

from gateway.text.english.context import ends_sentence, starts_sentence
from gateway.text.english.spoken import either

# The full stop belongs to the abbreviation; a capital word follows.
_TITLES = {
    "Dr": "Doctor", "Mr": "Mister", "Mrs": "Missus", "Ms": "Ms", "Mx": "Mix", "Prof": "Professor",
    "Gen": "General",
    "Col": "Colonel", "Capt": "Captain", "Lt": "Lieutenant", "Sgt": "Sergeant", "Rev": "Reverend",
    "Hon": "Honorable",
    "Gov": "Governor", "Sen": "Senator", "Rep": "Representative", "Pres": "President", "Mt": "Mount",
    "Ft": "Fort",
}  # fmt: skip

# The full stop belongs to the abbreviation; the sentence goes on.
_INNER_WORDS = {
    "e.g.": "for example", "i.e.": "that is", "vs.": "versus", "approx.": "approximately", "cf.": "compare",
    "ca.": "circa", "a.k.a.": "also known as", "incl.": "including", "excl.": "excluding", "viz.": "namely",
    "est.": "established", "max.": "maximum", "min.": "minimum", "avg.": "average", "intl.": "international",
    "dept.": "department", "govt.": "government", "temp.": "temperature",
}  # fmt: skip

# The full stop may also end the sentence.
_LAST_WORDS = {
    "etc.": "et cetera", "et al.": "et al", "Inc.": "Incorporated", "Ltd.": "Limited", "Co.": "Company",
    "Corp.": "Corporation", "Bros.": "Brothers", "Jr.": "Junior", "Sr.": "Senior", "Ave.": "Avenue",
    "Blvd.": "Boulevard", "Rd.": "Road", "Ln.": "Lane", "Dept.": "Department", "Assn.": "Association",
    "Univ.": "University", "misc.": "miscellaneous", "resp.": "respectively", "Ph.D.": "PhD",
    "Mon.": "Monday", "Tue.": "Tuesday", "Tues.": "Tuesday", "Wed.": "Wednesday", "Thu.": "Thursday",
    "Thurs.": "Thursday", "Fri.": "Friday",
}  # fmt: skip

# Without a full stop of their own.
_BARE = {
    "vs": "versus", "w/": "with ", "w/o": "without", "b/c": "because", "a/c": "A C", "c/o": "care of",
    "n/a": "N A",
    "N/A": "N A", "eg": "for example", "ie": "that is", "aka": "also known as", "Dr": "Doctor",
    "Mr": "Mister",
    "Mrs": "Missus",
    "and/or": "and or",
}  # fmt: skip

# Only before a number.
_NUMBERED = {
    "No.": "Number", "no.": "number", "Nos.": "Numbers", "nos.": "numbers", "№": "number", "Fig.": "Figure",
    "fig.": "figure", "Figs.": "Figures", "Vol.": "Volume", "vol.": "volume", "Ch.": "Chapter",
    "ch.": "chapter",
    "Sec.": "Section", "sec.": "section", "pp.": "pages", "p.": "page", "pg.": "page", "Eq.": "Equation",
    "eq.": "equation", "v.": "version", "§": "section", "§§": "sections", "#": "number", "Art.": "Article",
    "c.": "circa", "Apt.": "Apartment", "Ste.": "Suite", "ext.": "extension", "ext": "extension", "Ext.": "Extension",
}  # fmt: skip

_ABBREVIATION = re.compile(
    rf"(?<![\w.])(?:(?P<title>{either(*_TITLES)})\.[ ]?(?=[A-Z]|and[ ]|&)"
    rf"|(?P<numbered>{either(*_NUMBERED)})[ ]?(?=[0-9])"
    r"|(?P<saint>St\.?)[ ](?=[A-Z])|(?P<street>St\.)"
    rf"|(?<![0-9] )(?P<inner>{either(*_INNER_WORDS)})|(?P<last>{either(*_LAST_WORDS)})"
    rf"|(?P<bare>{either(*_BARE)})(?![\w./]))"
)
_INITIALS = re.compile(r"\b(?:[A-Z]\.){2,8}")
# Read as one word; other initials are somebody's name.
_ACRONYMS = frozenset({"US", "USA", "UK", "UN", "EU", "DC", "BC", "AD", "LA", "NYC", "UAE", "USSR"})
_TEXT_END = re.compile(r"\s*$")
_STREET_NAME = re.compile(r"(?:[A-Z][a-z]{0,20}|[0-9](?:st|nd|rd|th))[ ]$")


def expand(text: str) -> str:
    """Abbreviations as words. A full stop that also ended a sentence stays."""
    text = _ABBREVIATION.sub(_speak, text)
    return _INITIALS.sub(_join_initials, text)


def _speak(found: re.Match[str]) -> str:
    text, end = found.string, found.end()
    if found["title"]:
        return f"{_TITLES[found['title']]} "
    if found["numbered"]:
        return f"{_NUMBERED[found['numbered']]} "
    if found["saint"]:
        # "Main St. Louis" does not exist; "on Main St. She" does.
        return "Street. " if _follows_name(text, found.start()) else "Saint "
    if found["street"]:
        return "Street" + _stop(text, end)
    if found["last"]:
        return _LAST_WORDS[found["last"]] + _stop(text, end)
    return _INNER_WORDS[found["inner"]] if found["inner"] else _BARE[found["bare"]]


def _stop(text: str, end: int) -> str:
    """The full stop of an abbreviation that ends at `end`, if the sentence ends there, too."""
    return "." if ends_sentence(text, end) else ""


def _follows_name(text: str, start: int) -> bool:
    return _STREET_NAME.search(text, max(0, start - 24), start) is not None


def _join_initials(found: re.Match[str]) -> str:
    """ "the U.S. is" -> "the US is", "J.R.R. Tolkien" -> "J R R Tolkien"."""
    letters = found[0].replace(".", "")
    if letters in _ACRONYMS:
        return letters + ("." if starts_sentence(found.string, found.end()) else "")
    at_end = _TEXT_END.match(found.string, found.end())
    return " ".join(letters) + ("." if at_end else "")
