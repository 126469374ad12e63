"""Pauses that the writer asks for: "[pause]", "[pause 500ms]", "[pause 1.5s]"."""

import re
from typing import NamedTuple

DEFAULT_PAUSE_MS = 500
"""The length of "[pause]"."""

# A stop behind a marker ends what is before it.
_MARKER = re.compile(
    r"\[[ ]?pause"
    r"(?:[ ]{1,3}(?P<length>[0-9]{1,6}(?:\.[0-9]{1,3})?|\.[0-9]{1,3})[ ]?(?P<unit>ms|s|secs?|seconds?))?[ ]?\]"
    r"(?P<stop>[.,;:!?]{1,3}(?!\S))?",
    re.IGNORECASE,
)


class PauseError(ValueError):
    """A pause longer than it may be. The message is for the client."""


class Part(NamedTuple):
    """Text and the silence behind it; None if the text ends there."""

    text: str
    pause_ms: int | None


def split_pauses(text: str, *, max_pause_ms: int, max_total_ms: int) -> list[Part]:
    """The text between its markers. Raises PauseError for a pause, or a sum of pauses, above its bound.

    What only looks like a marker ("[pause for effect]", "[pause 5]") is text.
    """
    parts: list[Part] = []
    position = total_ms = 0
    for marker in _MARKER.finditer(text):
        pause_ms = _length_ms(marker)
        if pause_ms > max_pause_ms:
            raise PauseError(f"a pause of {pause_ms / 1000:g} s is longer than {max_pause_ms / 1000:g} s.")
        total_ms += pause_ms
        if total_ms > max_total_ms:
            raise PauseError(f"the pauses are longer than {max_total_ms / 1000:g} s together.")
        parts.append(Part(text[position : marker.start()].rstrip() + (marker["stop"] or ""), pause_ms))
        position = marker.end()
    parts.append(Part(text[position:], None))
    return parts


def _length_ms(marker: re.Match[str]) -> int:
    if marker["length"] is None:
        return DEFAULT_PAUSE_MS
    return round(float(marker["length"]) * (1 if marker["unit"].lower() == "ms" else 1000))
