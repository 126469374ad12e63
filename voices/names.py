"""What users may call voices and consents, and what they may say of them. Nothing of it ever reaches a path."""

import re
import unicodedata
from collections.abc import Set as AbstractSet

from shared.errors import VoiceRefused
from voices.records import VOICE_PREFIX, looks_like_id

MAX_NAME_CHARS = 100
MAX_DESCRIPTION_CHARS = 1000
MAX_CONSENT_CHARS = 500

_LANGUAGE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,4}")
_MAX_LANGUAGE_CHARS = 35


def checked_name(name: str, *, taken: AbstractSet[str] = frozenset()) -> str:
    """A name without the spaces around it, composed. `taken`: keys of names that mean something else.

    Raises VoiceRefused.
    """
    name = checked_text(name, "name", MAX_NAME_CHARS)
    if not name:
        raise VoiceRefused("missing_required_parameter", "Missing required parameter: 'name'.", param="name")
    if looks_like_id(name, VOICE_PREFIX):
        raise VoiceRefused("invalid_value", "'name' looks like the id of a voice; choose another one.", param="name")
    if name_key(name) in taken:
        raise VoiceRefused("voice_exists", f"The name '{name}' belongs to a built-in voice.", param="name")
    return name


def checked_text(text: str, param: str, max_chars: int) -> str:
    """A text without the spaces around it. Raises VoiceRefused for one too long or with control characters."""
    text = unicodedata.normalize("NFC", text).strip()
    if len(text) > max_chars:
        raise VoiceRefused(
            "string_above_max_length",
            f"'{param}' has {len(text)} characters; at most {max_chars} are accepted.",
            param=param,
        )
    if not is_one_line(text):
        raise VoiceRefused("invalid_value", f"'{param}' has control characters or line ends.", param=param)
    return text


def is_one_line(text: str) -> bool:
    """Whether a text has no control characters (NUL, which databases refuse), half characters or line ends."""
    return not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text)


def checked_language(language: str) -> str:
    """A BCP-47 tag. Raises VoiceRefused."""
    language = language.strip()
    if len(language) > _MAX_LANGUAGE_CHARS or not _LANGUAGE.fullmatch(language):
        raise VoiceRefused("invalid_value", "'language' is not a language tag such as en or en-US.", param="language")
    return language


def name_key(name: str) -> str:
    """A name as it is compared: case and the way a character is composed make no difference."""
    return unicodedata.normalize("NFKC", name).strip().casefold()[: 3 * MAX_NAME_CHARS]
