"""The few acronyms that engines misread; most they spell or speak as they should.

What is here was checked against the embedded engine's pronunciation: it spells words in capitals that it does
not know (JSON), and speaks some that it takes for words (AWS, UPS).
"""

import re

from gateway.text.english.spoken import either

_SPOKEN = {
    "JSON": "Jason", "README": "read me", "YAML": "yammel", "CUDA": "Cuda", "IKEA": "Ikea", "NOAA": "Noah",
    "PaaS": "pass", "MoMA": "Moma", "WAV": "wave",
}  # fmt: skip
_SPELLED = {"AWS": "A W S", "DOB": "D O B", "IMDb": "IMDB", "UPS": "U P S"}

_ACRONYM = re.compile(
    rf"\b(?:(?P<spoken>{either(*_SPOKEN)})|(?P<spelled>{either(*_SPELLED)}))(?P<ending>'?s)?(?!\w|[-_/.]\w|[ ]dot[ ])"
    r"|\b[iI][pP][vV](?P<protocol>[46])(?!\w)"
    r"|\b[uU][tT][fF]-?(?P<encoding>8|16|32)(?!\w)"
    r"|\b(?P<oxide>[CNS])O(?=2(?!\w))"
    r"|\bIT(?=[ ](?:departments?|teams?|support|managers?|staff|systems?|security|infrastructure|services?|guy|person"
    r"|professionals?|specialists?|consultants?|industry|sector|jobs?|budgets?|projects?|admins?|administrators?"
    r"|directors?|help[ ]?desk)\b)"
)


def expand(text: str) -> str:
    """Acronyms so that a voice says what a person would."""
    return _ACRONYM.sub(_speak, text)


def _speak(found: re.Match[str]) -> str:
    if found["spoken"]:
        return _SPOKEN[found["spoken"]] + (found["ending"] or "")
    if found["spelled"]:
        # Behind another word in capitals it may be shouted: "PUSH UPS".
        return found[0] if _is_shouted(found) else _SPELLED[found["spelled"]] + (found["ending"] or "")
    if found["protocol"]:
        return f"IP V{found['protocol']}"
    if found["encoding"]:
        return f"UTF-{found['encoding']}"
    if found["oxide"]:
        return f"{found['oxide']} O"
    return "I T"


def _is_shouted(found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - 3) : found.start()]
    return found[0] == "UPS" and before[:-1].isupper() and before[-1:] in {" ", "-"}
