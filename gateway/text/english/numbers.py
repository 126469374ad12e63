"""The numbers that nothing else has claimed."""

import re

from gateway.text.english.spoken import NUMBER, number, ordinal

_NUMBER = re.compile(
    r"(?P<before>(?<=[A-Za-z]))?(?:"
    r"(?P<version>(?<![A-Za-z])[vV](?=[0-9]))?(?P<dotted>[0-9]++(?:\.[0-9]++){2,}+)"
    r"|(?<![A-Za-z])[vV](?P<version_number>[0-9]++(?:\.[0-9]++)?)"
    r"|(?P<ordinal>[0-9]{1,3}(?:,[0-9]{3}){1,3}|[0-9]{1,12}+)(?:st|nd|rd|th)\b"
    rf"|(?P<number>{NUMBER}))(?P<after>(?=[A-Za-z]))?"
)
_LONE_A = re.compile(r"(?<![A-Za-z])A$")
_SUPERSCRIPTS = str.maketrans("⁰¹⁴⁵⁶⁷⁸⁹", "01456789")
_POWER = re.compile(r"(?P<squared>²)|(?P<cubed>³)|(?P<other>[⁰¹⁴-⁹]{1,9})")


def expand(text: str) -> str:
    """Numbers, ordinals and versions in words, apart from letters they touch ("MP3" -> "MP three")."""
    return _NUMBER.sub(_speak, _POWER.sub(_speak_power, text))


def _speak(found: re.Match[str]) -> str:
    before = ""
    if found["before"] is not None:
        # "A four" would be heard as the article.
        before = "-" if _LONE_A.search(found.string, max(0, found.start() - 2), found.start()) else " "
    after = " " if found["after"] is not None else ""
    if found["dotted"]:
        return f"{before}{'version ' if found['version'] else ''}{_dotted(found['dotted'])}{after}"
    if found["version_number"]:
        return f"version {number(found['version_number'])}{after}"
    if found["ordinal"]:
        return f"{before}{ordinal(int(found['ordinal'].replace(',', '')))}"
    return f"{before}{number(found['number'])}{after}"


def _dotted(written: str) -> str:
    """Network addresses have dots, versions have points."""
    parts = written.split(".")
    return (" dot " if len(parts) == 4 else " point ").join(number(part) for part in parts)


def _speak_power(found: re.Match[str]) -> str:
    if found["squared"]:
        return " squared"
    if found["cubed"]:
        return " cubed"
    return f" to the power of {found['other'].translate(_SUPERSCRIPTS)}"
