"""Addresses: URLs, host and file names, e-mail, paths, handles and hash tags."""

import re

from gateway.text.english.spoken import either

_HOST_ENDINGS = (
    "com", "org", "net", "edu", "gov", "int", "info", "biz", "dev", "app", "io", "ai", "co", "tv", "uk",
    "de", "fr",
    "eu", "ca", "au", "nl", "ch", "jp", "cn", "xyz", "tech", "cloud", "online", "shop", "blog", "news",
)  # fmt: skip
_FILE_ENDINGS = (
    "py", "js", "ts", "json", "txt", "pdf", "md", "csv", "xml", "html", "css", "yaml", "yml", "toml", "zip", "png",
    "jpg", "jpeg", "gif", "svg", "wav", "mp3", "mp4", "doc", "docx", "xls", "xlsx", "exe", "sh", "sql", "ini", "log",
    "cpp", "hpp", "java", "rs", "tsx", "jsx", "tar", "gz", "cfg", "conf", "bak", "ipynb", "bat", "webp", "ogg", "flac",
    "mov", "avi", "mkv", "ppt", "pptx", "epub", "env", "dll", "iso", "lua", "php",
)  # fmt: skip

_LABEL = r"[A-Za-z0-9_-]{1,63}+"
_ADDRESS = re.compile(
    r"(?P<url>(?i:(?:https?|ftp)://|\bwww\.)[^\s<>\"{}|\\^]++)"
    r"|(?P<mail>(?<![\w.+%-])(?:mailto:)?[A-Za-z0-9._%+-]{1,64}+@" + rf"(?:{_LABEL}\.)+[A-Za-z]{{2,24}}\b)"
    rf"|(?P<name>(?<![\w@./-])(?:{_LABEL}\.)+(?:{either(*_HOST_ENDINGS, *_FILE_ENDINGS)})(?![\w@-])"
    r"(?P<path>/[^\s<>\"]*+)?)"
    r"|(?P<file>(?<![\w/.~)])~?(?:/[\w.-]{1,64}+){2,}/?)"
    r"|(?<![\w@])@(?P<handle>\w)"
    # "#ff00aa" is a colour.
    r"|(?<![\w#])\#(?P<tag>(?!(?=[A-Fa-f]{0,8}[0-9])[0-9A-Fa-f]{6}(?:[0-9A-Fa-f]{2})?(?!\w))[A-Za-z])"
)  # fmt: skip
_SCHEME = re.compile(r"(?i)(?:https?|ftp)://(?:[^\s/@]{0,100}@)?|^")
_TRAILING = ".,;:!?'\")]*"

_SIGNS = {
    ".": " dot ", "/": " slash ", "-": " dash ", "_": " underscore ", "@": " at ", "+": " plus ",
    "~": " tilde ",
    ":": " colon ", "%": " percent ", "=": " equals ", "&": " and ", "#": " hash ", "?": " question mark ",
}  # fmt: skip
_READ_AS_WORDS = frozenset({"co", "me", "be", "so", "to", "my"})


def expand(text: str) -> str:
    """Addresses as they are dictated. Scheme, "www.", query and fragment of a URL are left out."""
    return _ADDRESS.sub(_speak, text)


def _speak(address: re.Match[str]) -> str:
    written = address[0]
    if address["handle"]:
        return f"at {address['handle']}"
    if address["tag"]:
        return f"hashtag {address['tag']}"
    kept = written.rstrip(_TRAILING)
    rest = written[len(kept) :]
    if address["mail"]:
        return _dictate(kept.removeprefix("mailto:"))
    if address["file"]:
        return _dictate(kept) + rest
    body = _SCHEME.sub("", kept, count=1)
    body = re.split(r"[?#]", body, maxsplit=1)[0].rstrip("/")
    if body[:4].lower() == "www.":
        body = body[4:]
    return _dictate(body) + rest


def _dictate(address: str) -> str:
    """Every sign by its name; a two-letter ending such as "io" is spelled."""
    words = "".join(_SIGNS.get(char, char) for char in address).split()
    for place, word in enumerate(words):
        if place and words[place - 1] == "dot" and len(word) <= 3 and word.isalpha():
            words[place] = word.upper() if _is_spelled(word) else word
    return " ".join(words)


def _is_spelled(word: str) -> bool:
    if len(word) == 2:
        return word not in _READ_AS_WORDS
    return word in _FILE_ENDINGS and word not in {"log", "doc", "zip", "gif"}
