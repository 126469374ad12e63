"""Shortened words and titles."""

import re

from gateway.text.english.spoken import either

# The full stop belongs to the abbreviation; a capital word follows.
_TITLES = {
    "Dr": "Doctor", "Mr": "Mister", "Mrs": "Missus", "Ms": "Ms", "Mx": "Mix", "Prof": "Professor", "Gen": "General",
    "Col": "Colonel", "Capt": "Captain", "Lt": "Lieutenant", "Sgt": "Sergeant", "Rev": "Reverend", "Hon": "Honorable",
    "Gov": "Governor", "Sen": "Senator", "Rep": "Representative", "Pres": "President", "Mt": "Mount", "Ft": "Fort",
}  # fmt: skip

# The full stop may also end the sentence.
_WORDS = {
    "e.g.": "for example", "i.e.": "that is", "etc.": "et cetera", "vs.": "versus", "approx.": "approximately",
    "Inc.": "Incorporated", "Ltd.": "Limited", "Co.": "Company", "Corp.": "Corporation", "Bros.": "Brothers",
    "Jr.": "Junior", "Sr.": "Senior", "Ave.": "Avenue", "Blvd.": "Boulevard", "Rd.": "Road", "Ln.": "Lane",
    "Dept.": "Department", "dept.": "department", "govt.": "government", "est.": "established", "et al.": "et al",
    "cf.": "compare", "ca.": "circa", "a.k.a.": "also known as", "incl.": "including", "excl.": "excluding",
    "misc.": "miscellaneous", "temp.": "temperature", "max.": "maximum", "min.": "minimum", "avg.": "average",
    "Assn.": "Association", "Univ.": "University", "intl.": "international", "Ph.D.": "PhD", "viz.": "namely",
    "resp.": "respectively", "Mon.": "Monday", "Tue.": "Tuesday", "Tues.": "Tuesday", "Wed.": "Wednesday",
    "Thu.": "Thursday", "Thurs.": "Thursday", "Fri.": "Friday",
}  # fmt: skip

# Without a full stop of their own.
_BARE = {
    "vs": "versus", "w/": "with ", "w/o": "without", "b/c": "because", "a/c": "A C", "c/o": "care of", "n/a": "N A",
    "N/A": "N A", "eg": "for example", "aka": "also known as", "Dr": "Doctor", "Mr": "Mister", "Mrs": "Missus",
    "and/or": "and or",
}  # fmt: skip

# Only before a number.
_NUMBERED = {
    "No.": "Number", "no.": "number", "Nos.": "Numbers", "nos.": "numbers", "№": "number", "Fig.": "Figure",
    "fig.": "figure", "Figs.": "Figures", "Vol.": "Volume", "vol.": "volume", "Ch.": "Chapter", "ch.": "chapter",
    "Sec.": "Section", "sec.": "section", "pp.": "pages", "p.": "page", "pg.": "page", "Eq.": "Equation",
    "eq.": "equation", "v.": "version", "§": "section", "§§": "sections", "#": "number", "Art.": "Article",
    "c.": "circa", "Apt.": "Apartment", "Ste.": "Suite", "ext.": "extension", "Ext.": "Extension",
}  # fmt: skip

_ABBREVIATION = re.compile(
    rf"(?<![\w.])(?:(?P<title>{either(*_TITLES)})\.[ ]?(?=[A-Z])"
    rf"|(?P<numbered>{either(*_NUMBERED)})[ ]?(?=[0-9])"
    r"|(?P<saint>St\.?)[ ](?=[A-Z])|(?P<street>St\.)"
    rf"|(?P<word>{either(*_WORDS)})|(?P<comma_word>(?:eg|ie)(?=[,:]))"
    rf"|(?P<bare>{either(*_BARE)})(?![\w./]))"
)
_INITIALS = re.compile(r"\b(?P<letters>(?:[A-Z]\.){2,8})(?P<after>(?=[ ]+[a-z0-9(]|[,;:!?'\")-]))?")
_SENTENCE_ENDS = re.compile(r"\s*$|[ ]+[\"'(]?[A-Z]|\n")


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
    if found["word"]:
        return _WORDS[found["word"]] + _stop(text, end)
    if found["comma_word"]:
        return "for example" if found["comma_word"] == "eg" else "that is"
    return _BARE[found["bare"]]


def _stop(text: str, end: int) -> str:
    """The full stop of an abbreviation that ends at `end`, if the sentence ends there, too."""
    return "." if _SENTENCE_ENDS.match(text, end) else ""


def _follows_name(text: str, start: int) -> bool:
    return (
        re.search(r"(?:[A-Z][a-z]+|[0-9](?:st|nd|rd|th))[ ]$", text[max(0, start - 24) : start]) is not None
    )


def _join_initials(found: re.Match[str]) -> str:
    """ "U.S.A." -> "USA": the stops stay only where they may end a sentence."""
    letters = found["letters"]
    if found["after"] is None and _SENTENCE_ENDS.match(found.string, found.end()):
        # "J. R. R. Tolkien" has blanks; "the U.S. He" may end here.
        return letters.replace(".", "") + "."
    return letters.replace(".", "")
