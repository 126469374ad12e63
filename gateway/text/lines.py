"""Which line ends are structure and which are only the width of somebody's window.

An engine hears no line end, so the end of a heading, a list item, a table row or a title gets the
punctuation that a reader would hear there.
"""

import re
from typing import Literal, NamedTuple

import regex

_Kind = Literal["plain", "item", "block", "blank"]
"""`item`: list item or table row, one line of its own; `block`: heading, a paragraph of its own."""

_FENCE = re.compile(r"[ ]{0,8}(?:```|~~~)[^\n]{0,200}$")
_RULE = re.compile(r"[ ]{0,3}(?:[-*_=~+][ ]?){3,}+[ ]{0,20}$|[ ]{0,3}[=-]{2,3}[ ]*$")
_TABLE_RULE = re.compile(r"[ |:+=-]{3,}+$")
_QUOTE = re.compile(r"(?:[ ]{0,3}>(?=[ >]|[^\W0-9]|$)[ ]?)++")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ ]+(?!of\b)")
_BULLET = re.compile(r"[ ]*+[-*+•◦‣▪●○·–—][ ]+(?:\[[ xX]\][ ]+)?")
_NUMBERED = re.compile(r"[ ]*+\(?(?P<number>[0-9]{1,3})[.)][ ]+(?=\S)")
_LETTERED = re.compile(r"[ ]*+\(?(?P<letter>[a-h])\)[ ]+(?=\S)")
_PIPES = re.compile(r"[ ]*\|[ |]*")

_ENDS_OPEN = regex.compile(r"""[\p{L}\p{M}\p{N}%°€£$)\]"'»”’]$""")
_ENDS_DONE = regex.compile(r"""[.!?…。！？।؟:：][)\]"'»”’]*$""")
_ALPHABETIC_END = regex.compile(r"""[\p{Lu}\p{Ll}\p{Lt}\p{N}%°€£$)\]"']$""")
_CJK_END = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー]$")
_CJK = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")

_WRAP_WIDTH = 40  # columns
"""A plain line at least this long that runs on without a stop was wrapped; a shorter one ended on purpose."""


class _Line(NamedTuple):
    text: str
    kind: _Kind


def join_lines(text: str) -> str:
    """Text whose line ends all mean something: "\\n" a line of its own, "\\n\\n" a paragraph."""
    lines = [_read_line(line, alone="\n" not in text) for line in text.split("\n")]
    pieces: list[str] = []
    for line, following in zip(lines, [*lines[1:], _Line("", "blank")], strict=True):
        if line.kind == "blank":
            pieces.append("\n\n")
            continue
        pieces.append(line.text)
        if following.kind == "blank" or "block" in (line.kind, following.kind):
            pieces.append(_stop(line.text) + "\n\n")
        elif "item" in (line.kind, following.kind):
            pieces.append(_stop(line.text) + "\n")
        elif _is_wrapped(line.text, following.text):
            pieces.append(_glue(line.text, following.text))
        else:
            pieces.append(_comma(line.text) + "\n")
    joined = "".join(pieces).strip()
    # The full stop of the last line is nobody's structure: the text ends there anyway.
    last = next((line.text for line in reversed(lines) if line.kind != "blank"), "")
    return joined[:-1] if joined and joined[-1] in ".。" and _stop(last) else joined


def _read_line(line: str, *, alone: bool) -> _Line:
    """A line without its mark. `alone`: the only line is no list, so "3. März" in it is a date."""
    line = line.rstrip()
    if not line or _FENCE.match(line) or _RULE.match(line) or _TABLE_RULE.match(line):
        return _Line("", "blank")
    kind: _Kind = "plain"
    if quote := _QUOTE.match(line):
        line = line[quote.end() :]
    if heading := _HEADING.match(line):
        line, kind = line[heading.end() :].rstrip("# "), "block"
    elif bullet := _BULLET.match(line):
        line, kind = line[bullet.end() :], "item"
    elif not alone and (numbered := _NUMBERED.match(line)):
        # "1. Eggs" would end a sentence after the number.
        line, kind = f"{numbered['number']}, {line[numbered.end() :]}", "item"
    elif not alone and (lettered := _LETTERED.match(line)):
        line, kind = f"{lettered['letter'].upper()}, {line[lettered.end() :]}", "item"
    if line.count("|") > 1:
        line, kind = _PIPES.sub(", ", line.strip(" |")), "item"
    line = line.strip()
    return _Line(line, kind if line else "blank")


def _is_wrapped(line: str, following: str) -> bool:
    if _ENDS_DONE.search(line):
        return False
    return following[0].islower() or len(line) + len(_CJK.findall(line)) >= _WRAP_WIDTH


def _glue(line: str, following: str) -> str:
    return "" if _CJK_END.search(line) and _CJK.match(following) else " "


def _stop(line: str) -> str:
    if _CJK_END.search(line):
        return "。"
    return "." if _ALPHABETIC_END.search(line) and not _ENDS_DONE.search(line) else ""


def _comma(line: str) -> str:
    if _CJK_END.search(line):
        return "，"
    return "," if _ALPHABETIC_END.search(line) and not _ENDS_DONE.search(line) else ""
