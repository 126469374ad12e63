"""The preparation that is the same for every language: emoji and markup go, typography becomes plain."""

import unicodedata

import regex

from gateway.text.markup import strip_html, strip_markdown
from gateway.text.sanitize import sanitize

# sanitize() has taken joiners, variation selectors and tags away: what is left of an emoji is one of these.
# Signs that prose uses (arrows, (c), (R), TM) count as pictographs in Unicode; arrows are read later.
_EMOJI = regex.compile(
    r"[0-9#*]\u20e3|[\p{Emoji_Presentation}\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}"
    r"\p{So}\p{Sk}--[°←→⇒№^`\u2103\u2109\u3300-\u33ff]]",
    regex.V1,
)
_EMOTICON = regex.compile(
    r"(?<!\S)(?:[:;][-o^']?[()DPpO/|\\*]+|=[()D]+|[xX]D+|\(:|\^_*\^|[oO]_+[oO])(?=$|[\s.,!?])"
    r"|(?<=\p{L}{2} )<3+(?=\s*$)|(?<=\bI )<3+(?= )",
    regex.MULTILINE,
)

# Characters whose compatibility form is what a reader says: full-width and styled letters and digits,
# ligatures, half-width kana, unit signs such as ㎏, letter-like signs such as ℃, Roman numerals.
_COMPATIBILITY = regex.compile(
    r"[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff65-\uff9f\ufb00-\ufb06\u2100-\u2115\u2117-\u214f\u2160-\u217f"
    r"\u3380-\u33df\U0001d400-\U0001d7ff]+"
)

_TYPOGRAPHY = str.maketrans(
    {
        "‘": "'", "’": "'", "‚": "'", "‛": "'", "ʼ": "'", "´": "'",
        "“": '"', "”": '"', "„": '"', "‟": '"',
        "‐": "-", "‑": "-", "―": "—", "…": "...", "⁄": "/", "∕": "/", "∗": "*",
    }
)  # fmt: skip

_NUMBER_DASH = regex.compile(r"(?<=[0-9%])[ ]?[‒–][ ]?(?=[$£€]?[0-9])")
_SENTENCE_DASH = regex.compile(r"[ ]?(?:—|-{2,3}|(?<=\s)[‒–](?=\s))[ ]?")
_MARKS_OF_TONE = regex.compile(r"[!?]{2,}+")
_DOTS = regex.compile(r"\.{2,}+")
# Two colons inside a network address ("fe80::1") are no repetition.
_REPEATED_STOP = regex.compile(r"(?!(?<=[0-9])::[0-9A-Fa-f]|(?<=[A-Fa-f])::[0-9])([,;:—])(?:[ ]?\1)++")
_SIGNS = regex.compile(r"[\[\]{}<>|\\^~*_`#]")
_BLANKS = regex.compile(r"[ \t]{2,}+")
_LINE_EDGES = regex.compile(r"[ ]?\n[ ]?")
_BLANK_LINES = regex.compile(r"\n{3,}+")
_SPACE_BEFORE_STOP = regex.compile(r"[ ](?=[,.;:!?](?:[\s\"')]|$))")


_SPACE_IN_BRACKETS = regex.compile(r"(?<=\()[ ]|[ ](?=\))")


def clean(text: str) -> str:
    """Text without emoji and markup, in plain typography; nothing is expanded into words.

    Signs that may be read out (`$ % & + = < >` and so on) are still there: `drop_signs` ends the work
    when nobody reads them.
    """
    text = strip_html(sanitize(text))
    text = _EMOTICON.sub(" ", text)
    text = _EMOJI.sub(" ", text)
    text = _COMPATIBILITY.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text)
    text = text.translate(_TYPOGRAPHY)
    text = strip_markdown(text)
    text = _NUMBER_DASH.sub("-", text)
    text = _SENTENCE_DASH.sub(" — ", text).replace("–", "-").replace("‒", "-")
    text = _MARKS_OF_TONE.sub(_one_mark, text)
    return tidy(_DOTS.sub("...", text))


def drop_signs(text: str) -> str:
    """Text without the signs that are markup or brackets in any language and have no reading of their own."""
    return tidy(_SIGNS.sub(" ", text))


def tidy(text: str) -> str:
    """Text with single blanks, none before a stop, at most one empty line."""
    text = _BLANKS.sub(" ", text)
    text = _LINE_EDGES.sub("\n", text)
    text = _BLANK_LINES.sub("\n\n", text)
    text = _SPACE_BEFORE_STOP.sub("", text)
    text = _SPACE_IN_BRACKETS.sub("", text)
    text = _REPEATED_STOP.sub(r"\1", text)
    return text.strip()


def _one_mark(run: "regex.Match[str]") -> str:
    marks = run[0]
    if "?" not in marks:
        return "!"
    return "?!" if "!" in marks else "?"
