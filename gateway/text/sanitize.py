"""What no engine may ever see: characters without a sound or a shape, and repetition without an end.

`sanitize` is the part of text preparation that a caller cannot switch off. It expands nothing and removes
nothing that a reader would see, apart from the tail of absurd repetition.
"""

import unicodedata

import regex

_SURROGATE = regex.compile(r"[\ud800-\udfff]")

# In these scripts a (non-)joiner between two letters is spelling, not formatting: Persian "می‌خواهم".
_JOINING_SCRIPTS = (
    r"[\p{Arabic}\p{Syriac}\p{Mongolian}\p{Devanagari}\p{Bengali}\p{Gurmukhi}\p{Gujarati}\p{Oriya}\p{Tamil}"
    r"\p{Telugu}\p{Kannada}\p{Malayalam}\p{Sinhala}\p{Khmer}\p{Myanmar}\p{Tibetan}]"
)
_INVISIBLE = regex.compile(
    r"[\p{Default_Ignorable_Code_Point}--[\u200c\u200d]]|[\ufff9-\ufffb]"
    rf"|[\u200c\u200d](?!{_JOINING_SCRIPTS})|(?<!{_JOINING_SCRIPTS})[\u200c\u200d]",
    regex.V1,
)
_LINE_END = regex.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028]")
_BLANK = regex.compile(r"[[\p{Cc}\p{Zs}\p{Co}\p{Noncharacter_Code_Point}\u2800\ufffc\ufffd]--[\n ]]", regex.V1)

# Scripts stack few marks on a letter; more are decoration. They also make NFC slow: it sorts each stack.
_MARK_STACK = regex.compile(r"(\p{M}{8})\p{M}+")

# Five equal letters in a row are in no word of an alphabet, but "哈哈哈哈" is ordinary laughter.
_LETTER_RUN = regex.compile(r"([\p{Lu}\p{Ll}\p{Lt}])\1{4,}", regex.IGNORECASE)
_SYLLABLE_RUN = regex.compile(r"(\p{L})\1{8,}")
_SYMBOL_RUN = regex.compile(r"([^\w\s])\1{3,}")
_REPEATED_GROUP = regex.compile(r"(\p{L}{2,4}?)\1{5,}", regex.IGNORECASE)


def sanitize(text: str) -> str:
    """Text in NFC without control, invisible and bidirectional characters, private use and lone surrogates.

    Words broken by invisible characters are whole again. Line ends become "\\n", other blanks a space.
    Runs of one letter, syllable or sign are cut short ("Nooooooo" -> "Nooo"); runs of digits are not.
    """
    text = drop_surrogates(text)
    text = _LINE_END.sub("\n", text).replace("\u2029", "\n\n")
    text = _INVISIBLE.sub("", text)
    text = _BLANK.sub(" ", text)
    text = _MARK_STACK.sub(r"\1", text)
    text = unicodedata.normalize("NFC", text)
    text = _LETTER_RUN.sub(lambda run: run[0][:3], text)
    text = _SYLLABLE_RUN.sub(lambda run: run[0][:8], text)
    text = _SYMBOL_RUN.sub(lambda run: run[0][:3], text)
    return _REPEATED_GROUP.sub(r"\1\1\1", text)


def drop_surrogates(text: str) -> str:
    """Text that can be encoded: surrogate pairs are joined to their character, lone halves dropped."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
