"""What programs write: identifiers, hashes, hexadecimal numbers, network addresses, colours."""

import re

from gateway.text.english.spoken import digits

_HEX = "[0-9A-Fa-f]"
_IDENTIFIER = re.compile(
    rf"(?P<uuid>(?<![\w-]){_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}(?![\w-]))"
    rf"|(?P<colour>(?<![\w&#])\#(?=[0-9]{{0,8}}[A-Fa-f])(?=[A-Fa-f]{{0,8}}[0-9]){_HEX}{{6}}(?:{_HEX}{{2}})?(?!\w))"
    rf"|(?P<hexadecimal>(?<!\w)0[xX]{_HEX}{{1,64}}(?!\w))"
    r"|(?P<port>(?:(?<=localhost)|(?<=[0-9]\.[0-9])|(?<=[0-9]\.[0-9]{2})|(?<=[0-9]\.[0-9]{3})):[0-9]{2,5}(?![\w:]))"
    r"|(?P<mask>(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}/)(?=[0-9]{1,2}(?!\w))"
    rf"|(?P<ipv6>(?<![\w:.]){_HEX}{{0,4}}(?::{_HEX}{{0,4}}){{2,7}}(?![\w:]))"
    # "foo.bar()", "fs.readFile" and "os.path.join", not "end.it".
    r"|(?P<dotted>(?<![\w./@-])[A-Za-z_][A-Za-z0-9_]{1,40}(?:\.[a-z_][A-Za-z0-9_]{1,40}){1,8}+(?:\(\))?)(?!\w)"
    r"|(?P<call>(?<=\w)\(\))"
    r"|(?<![\w'.])(?:(?P<camel>[a-z]{2,30}(?:[A-Z][a-z]{1,30}){1,9}+(?:[A-Z]{2,6})?"
    r"|(?:[A-Z][a-z]{1,30}){3,9}+)"
    r"|(?P<mixed>(?=[A-Za-z]{0,64}[0-9])(?=[0-9]{0,64}[A-Za-z])[0-9A-Za-z]{3,64}+))(?!\w)"
    r"|(?<=[0-9])-?(?P<stage>alpha|beta|rc|dev|preview)\.?(?=[0-9]{1,3}(?!\w)|(?!\w))"
)
_RUN = re.compile(r"[0-9]+|[A-Za-z]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")

# Between digits these are units or signs: "1h30m", "2x4x8", "5ft10in", "1080p60", "1e10".
_MEASURES = frozenset(
    ["h", "m", "s", "d", "w", "y", "x", "e", "k", "p", "i", "b", "ms", "min", "sec", "hr", "hrs", "ft", "in", "lb",
     "lbs", "oz", "kg", "g", "cm", "mm", "km", "st", "nd", "rd", "th"]
)  # fmt: skip

_HASH_CHARS = 7
"""As long as a short commit hash: text of hexadecimal digits that is no word."""

_LONG_HASH_CHARS = 12
"""Nobody writes a word of so many hexadecimal digits, however few times letters and digits change."""

_GROUP_CHARS = 4
_NUMERONYM_CHARS = 5


def expand(text: str) -> str:
    """Identifiers as a programmer dictates them: "getUserName" in words, "3f2a9bc" in characters."""
    return _IDENTIFIER.sub(_speak, text)


def _speak(found: re.Match[str]) -> str:  # noqa: PLR0911 - one branch a kind of identifier
    kind, written = found.lastgroup, found[0]
    match kind:
        case "uuid":
            return ", ".join(_in_groups(part) for part in written.split("-"))
        case "colour":
            return f"hash {_in_groups(written[1:], size=2)}"
        case "hexadecimal":
            return f"zero x {_in_groups(written[2:])}"
        case "port":
            return f" port {digits(written)}"
        case "mask":
            return f"{written[:-1]} slash "
        case "ipv6":
            return _network_address(written)
        case "dotted":
            return _dotted(written)
        case "call":
            return ""
        case "camel":
            return _HUMP.sub(" ", written)
        case "stage":
            return f" {'RC' if written.lstrip('-').startswith('rc') else found['stage']} "
    return _mixed(written)


def _network_address(written: str) -> str:
    """Colons between hexadecimal groups; a time or a ratio has neither a letter nor two colons together."""
    has_letter = any(char.isalpha() for char in written)
    if not any(char.isalnum() for char in written) or not ("::" in written or (has_letter and written.count(":") > 3)):
        return written
    words = [" colon " if char == ":" else f" {_character(char)}" for char in written]
    return " ".join("".join(words).split())


def _dotted(written: str) -> str:
    if written.count(".") < 2 and not written.endswith("()") and not _HUMP.search(written):
        return written
    return _HUMP.sub(" ", written.removesuffix("()")).replace(".", " dot ")


def _mixed(written: str) -> str:
    """A word of letters and digits; unchanged where a later pass knows better."""
    runs = _RUN.findall(written)
    letters = [run for run in runs if run[0].isalpha()]
    is_hash = len(written) >= _HASH_CHARS and all(char in "0123456789abcdefABCDEF" for char in written)
    if is_hash and len(written) >= _LONG_HASH_CHARS:
        return _in_groups(written)
    if len(runs) < 3 or written.isupper() or (written[0].isdigit() and _MEASURES.issuperset(letters)):
        return written
    if len(written) <= _NUMERONYM_CHARS and written.islower() and all(len(run) == 1 for run in letters):
        return " ".join(run.upper() for run in runs)
    return _in_groups(written) if is_hash or (len(runs) > 3 and all(len(run) < 3 for run in letters)) else written


def _in_groups(characters: str, size: int = _GROUP_CHARS) -> str:
    """Characters by name; a long row with a comma after every `size`."""
    if len(characters) <= 2 * _GROUP_CHARS and size == _GROUP_CHARS:
        size = len(characters)
    groups = (characters[start : start + size] for start in range(0, len(characters), size))
    return ", ".join(" ".join(map(_character, group)) for group in groups)


def _character(char: str) -> str:
    return digits(char) if char.isdigit() else char.upper()
