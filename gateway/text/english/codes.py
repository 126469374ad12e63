"""Numbers that name instead of count: one-time codes, PINs, order and telephone numbers, digit by digit."""

import re

from gateway.text.english.context import counts_something
from gateway.text.english.spoken import digits

# After these words a number is a code.
_CODE_WORD = (
    r"(?:codes?|pins?|otps?|passcodes?|passwords?|ids?|zip|postcodes?|ext\.|extension|ending[ ]in|ends[ ]in|"
    r"(?:order|account|tracking|reference|ref\.?|confirmation|booking|invoice|ticket|serial|case|card|phone|mobile|"
    r"telephone|fax|tel\.?|policy|member|membership|registration|routing|licen[cs]e|passport|model|part|customer|"
    r"social[ ]security)[ ](?:numbers?|nos?\.?|ids?|\#))"
)
# After these it is one if a sign says so or if it is long ("order 20417", but "order 12 pens").
_THING_WORD = (
    r"(?:orders?|accounts?|invoice|ticket|booking|reference|ref\.?|confirmation|tracking|case|call|"
    r"dial|tel\.?)"
)
_LINK = r"(?:[ ](?:is|are|was|were|now|number|no\.))?[ ]?(?:[:=\#-][ \n]?|[ \n])(?:\#[ ]?)?[\"'(]?"

_CODE = (
    r"(?=[A-Z-]{0,40}[0-9])[A-Z0-9]{1,40}+(?:-[A-Z0-9]{1,40}+){0,8}+"
    r"(?:[ ][0-9]{2,4}(?![\w%/-]|[.,:][0-9])){0,6}+"
    r"(?![\w%\u00b0]|[.,:/][0-9])"
)
_LIST = rf"{_CODE}(?:(?:,[ ](?:and[ ]|or[ ])?|[ ]and[ ]|[ ]or[ ]){_CODE}){{0,10}}+"

_NAMED = re.compile(
    rf"(?P<intro>\b(?i:{_CODE_WORD}){_LINK}|\b(?i:{_THING_WORD})(?:{_LINK})(?=[A-Z-]{{0,6}}[0-9]{{5}})|"
    rf"\b(?i:{_THING_WORD})(?:[ ]no\.?|[ ]number)?[ ]?[:\#][ ]?)(?P<codes>{_LIST})"
    r"|(?P<before>(?<![\w.,$-])[0-9]{4,8}(?=[ ]is[ ](?:your|the|my)[ ](?:[A-Za-z-]{1,20}[ ]){0,4}?"
    r"(?i:code|pin|otp|passcode|password)\b))"
)  # fmt: skip

_NUMBERED = re.compile(
    # International, North American, with a trunk zero, local, then any three or more groups (social security, ISBN).
    r"(?<![\w.,$+-])(?:(?:(?P<plus>\+)[0-9]{1,3}(?:[ .-]?\(?[0-9]{1,5}\)?){1,6}+|"
    r"(?:1[ .-])?(?:\([0-9]{3}\)[ ]?|[0-9]{3}[.-])[0-9]{3}[ .-][0-9]{4}|(?:1[ ])?[2-9][0-9]{2}[ ][0-9]{3}[ ][0-9]{4}|"
    r"(?P<trunk>\(?0[0-9]{1,4}\)?(?:[ /-][0-9]{2,8}){1,5}+)|"
    r"(?P<vanity>1-8[0-9]{2}-(?=[0-9-]{0,8}[A-Z])(?:-?[A-Z]{2,10}|-?[0-9]{1,4}){1,4}+)|"
    r"[0-9]{3}-[0-9]{4}|"
    r"(?![0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?![0-9-])|[0-9]{1,2}-[0-9]{1,2}-[0-9]{4}(?![0-9-]))"
    r"[0-9]{1,7}(?:-[0-9]{1,7}){2,8}+)(?:,?[ ]?(?:ext\b\.?|extension|x)[ ]?(?P<extension>[0-9]{1,6}))?"
    r"(?![\w%-]|[.,:/][0-9])"
    r"|(?P<verb>\b(?i:call|called|calling|calls|dial|dialed|dialled|dialing|dialling|phone|phoned|ring|text)[ ])"
    r"(?P<short>(?:[1-9]11|999|112|101|988|000)(?:[ ](?:or|and)[ ](?:[1-9]11|999|112))?)(?![\w%-]|[.,:/][0-9])"
    r"|\b(?P<emergency>911|999|112)(?=[ ](?:calls?|operators?|dispatch(?:er|ers)?|emergency)\b))"
)
_NUMBER_SIGN = re.compile(r"\bno\b\.?(?=[ :#]*$)", re.IGNORECASE)
_EXTENSION_SIGN = re.compile(r"^ext\.", re.IGNORECASE)
_TRUNK_ZERO = re.compile(r"[ ]?\(0\)[ ]?")
_NORTH_AMERICAN = re.compile(r"\+1([0-9]{3})([0-9]{3})([0-9]{4})")
_MIN_TRUNK_DIGITS, _MAX_TRUNK_DIGITS = 9, 15
"""National numbers; fewer are a code or a sum, more two numbers."""

_GROUP = re.compile(r"[0-9]+|[A-Z]+")
_GAP = re.compile(r"[^A-Z0-9]+")


def expand(text: str) -> str:
    """Codes and telephone numbers spelled, with a comma between their groups."""
    text = _NAMED.sub(_speak_named, text)
    return _NUMBERED.sub(_speak_numbered, text)


def _speak_named(found: re.Match[str]) -> str:
    if found["before"]:
        return digits(found["before"])
    if counts_something(found.string, found.end()):
        return found[0]
    intro = _EXTENSION_SIGN.sub("extension", _NUMBER_SIGN.sub("number", found["intro"]))
    return intro + re.sub(_CODE, lambda code: _spell(code[0]), found["codes"])


def _speak_numbered(found: re.Match[str]) -> str:
    if found["verb"]:
        return found["verb"] + " ".join(digits(word) if word.isdigit() else word for word in found["short"].split())
    if found["emergency"]:
        return digits(found["emergency"])
    written = found[0]
    if found["vanity"]:
        return re.sub(r"[0-9]+", lambda run: digits(run[0]), written).replace("-", ", ")
    if found["trunk"] and not _MIN_TRUNK_DIGITS <= len(re.findall("[0-9]", found["trunk"])) <= _MAX_TRUNK_DIGITS:
        return written
    if found["extension"]:
        written = written[: found.start("extension") - found.start()].rstrip(" .extnsio,")
    if found["plus"]:
        # Not dialled behind a country code: "+44 (0)20".
        written = _TRUNK_ZERO.sub(" ", written)
        if ten := _NORTH_AMERICAN.fullmatch(written):
            written = " ".join(("1", *ten.groups()))
    spoken = ("plus " if found["plus"] else "") + _spell(written)
    return f"{spoken}, extension {digits(found['extension'])}" if found["extension"] else spoken


def _spell(code: str) -> str:
    """ "A1-42" -> "A one, four two"."""
    return ", ".join(
        " ".join(digits(part) if part[0].isdigit() else " ".join(part) for part in _GROUP.findall(group))
        for group in _GAP.split(code)
        if group
    )
