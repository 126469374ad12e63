"""Lexicons in files: YAML or JSON, one entry a line."""

from pathlib import Path

import yaml

from gateway.key_lexicons import usable_lexicon
from gateway.text import LexiconError
from shared.errors import SettingsError
from voices import key_lexicon


def read_lexicon(path: Path, max_entries: int) -> dict[str, str]:
    """The entries of a file, checked as the gateway will. Raises SettingsError with the file and its fault."""
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:  # ValueError: no UTF-8, or no such date
        raise SettingsError(f"cannot read the lexicon {path}: {error}") from error
    if not isinstance(entries, dict) or not entries:
        raise SettingsError(f"{path}: expected lines such as 'Gepard: gay part'")
    for written, spoken in entries.items():
        for value in (written, spoken):
            # YAML reads `7`, `no` and `1:30` as something else.
            if not isinstance(value, str):
                raise SettingsError(
                    f"{path}: the entry {str(written)[:20]!r} has a {type(value).__name__} where a text is expected; "
                    "put it in quotes"
                )
    try:
        usable_lexicon(entries, max_entries)
        key_lexicon.dump(entries)
    except LexiconError as error:
        raise SettingsError(f"{path}: {error}") from error
    except UnicodeEncodeError as error:
        raise SettingsError(f"{path}: an entry has half a character ({error.reason})") from error
    return entries
