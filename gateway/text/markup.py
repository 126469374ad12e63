"""Markdown, HTML and chat-template marks taken away, their words and their line structure kept.

Every pattern is bounded or cannot start twice on the same stretch: the time is linear in the text.
"""

import html
import re

from gateway.text.lines import join_lines
from gateway.text.sanitize import sanitize

_OPENERS = re.compile(r"<!--|<(script|style)\b", re.IGNORECASE)

_SPECIAL_TOKEN = re.compile(r"<\|[^<>|\n]{0,64}\|>|<<\s?/?SYS\s?>>|\[/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_CALLS)\]")

# A tag is `<name>`, `</name>`, `<name/>` or has an attribute with "=": "a <b and c> d" is none.
_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9:_-]{0,30})(?:\s[^<>=]{0,200}+=[^<>]{0,4000}+|\s{0,20}+/?)?>"
)
_LINE_TAGS = frozenset({"br", "li", "tr", "dt", "dd", "option"})
_CELL_TAGS = frozenset({"td", "th"})
_PARAGRAPH_TAGS = frozenset(
    [
        "p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "table", "section", "article",
        "header",
        "footer", "blockquote", "pre", "hr", "figure", "title",
    ]
)  # fmt: skip

_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

_LINK_TARGET = r"\([^()\n]{0,2000}+(?:\([^()\n]{0,200}+\)[^()\n]{0,200}+)?\)"
_IMAGE_OR_LINK = re.compile(rf"!?\[(?P<label>[^\[\]\n]{{0,500}}+)\](?:{_LINK_TARGET}|\[[^\[\]\n]{{0,100}}+\])")
_FOOTNOTE = re.compile(r"\[\^[^\[\]\s]{1,40}+\]:?")
_CITATION = re.compile(r"(?<=[A-Za-z.,;:!?)\"'])\[[1-9][0-9]{0,2}(?:[,–-] ?[0-9]{1,3}){0,5}\]")
_LINK_DEFINITION = re.compile(r"^[ ]{0,3}\[[^\[\]\n]{1,100}+\]:[ ]\S+[^\n]{0,200}$", re.MULTILINE)

# A star or underscore with a blank on one side only opens or closes emphasis. Between digits, or with
# blanks or letters on both sides, it is a sign of its own ("23*5", "2 * 3").
_STRONG = re.compile(
    r"(?<![0-9*_])(?:\*{2,3}|_{2,3}|(?<!~)~~(?!~))(?=\S)|(?<=[^\s*_])(?:\*{2,3}|_{2,3}|(?<!~)~~(?!~))(?![0-9*_])"
)
_EMPHASIS = re.compile(r"(?:(?<![\w*)])(?<![0-9)] )[*_](?=[^\s*_]))|(?:(?<=[^\s*_])[*_](?![\w*(])(?! [0-9(]))")
_CODE_MARK = re.compile(r"(?<!`)`{1,2}(?!`)")
_BACKSLASH_ESCAPE = re.compile(r"\\(?=[\\`*_{}\[\]()#+.!|<>~-])")


def strip_html(text: str) -> str:
    """Text without tags, comments, scripts and chat-template marks, with its entities decoded."""
    text = _drop_hidden(text)
    text = _SPECIAL_TOKEN.sub(" ", text)
    text = _TAG.sub(_replace_tag, text)
    if "&" not in text:
        return text
    decoded = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    # An entity may stand for a character that sanitize() has to see ("&shy;", "&#8203;").
    return sanitize(decoded) if decoded != text else text


def strip_markdown(text: str) -> str:
    """Plain text. Blocks end in blank lines, list items and rows in line ends, each with a full stop."""
    text = _BACKSLASH_ESCAPE.sub("", text)
    text = _LINK_DEFINITION.sub("", text)
    text = _FOOTNOTE.sub("", text)
    text = _IMAGE_OR_LINK.sub(lambda link: link["label"], text)
    text = _CITATION.sub("", text)
    text = _STRONG.sub("", text)
    text = _EMPHASIS.sub("", text)
    text = join_lines(text)
    return _CODE_MARK.sub("", text).replace("```", " ")


def _drop_hidden(text: str) -> str:
    """Without comments, scripts and style sheets. One that never ends is left to the later steps."""
    kept: list[str] = []
    position = 0
    unclosed: set[str] = set()
    for opener in _OPENERS.finditer(text):
        if opener.start() < position:
            continue
        closer = "-->" if opener[1] is None else f"</{opener[1].lower()}>"
        if closer in unclosed:
            continue
        end = _find(text, closer, opener.end())
        if end < 0:
            unclosed.add(closer)
            continue
        kept += (text[position : opener.start()], " ")
        position = end + len(closer)
    kept.append(text[position:])
    return "".join(kept)


def _find(text: str, closer: str, start: int) -> int:
    found = re.compile(re.escape(closer), re.IGNORECASE).search(text, start)
    return found.start() if found else -1


def _replace_tag(tag: re.Match[str]) -> str:
    name = tag["name"].lower()
    if name in _PARAGRAPH_TAGS:
        return "\n\n"
    if name in _LINE_TAGS:
        return "\n"
    if name in _CELL_TAGS:
        return " | " if tag["end"] else ""
    return ""
