"""A key's lexicon as its row holds it: a JSON object, word or phrase -> what is said for it."""

from collections.abc import Mapping

import msgspec


def dump(entries: Mapping[str, str]) -> str:
    """What is stored. Raises UnicodeEncodeError for what is no Unicode text."""
    return msgspec.json.encode(entries).decode()


def load(stored: str) -> dict[str, str]:
    """The entries of a row, their bounds unchecked. Raises ValueError for a row that was not written by `dump`."""
    try:
        return msgspec.json.decode(stored, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise ValueError(f"not a JSON object of texts: {error}") from error
