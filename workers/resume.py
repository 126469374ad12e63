"""What an attempt leaves for the next one: the engine's state behind the audio, in shares that travel with it.

A share is a row of records: segment index and length as unsigned 32-bit integers, then that many bytes. The
gateway joins the shares of the events it has read; cut off between events, they are still whole records.
"""

import struct

_RECORD = struct.Struct("<II")


class ResumeShares:
    """Collects the shares of one attempt; `state` is what earlier attempts left."""

    def __init__(self, state: bytes) -> None:
        """Raises ValueError for a state that is not made of records."""
        self._known = _parse(state)
        self._num_seen: dict[int, int] = {}
        self._share = b""

    def of(self, segment: int) -> bytes:
        """What earlier attempts left of a segment."""
        return self._known.get(segment, b"")

    def add(self, segment: int, resume: bytes) -> None:
        """Take a chunk's `resume`; what the next attempt knows already is not told twice."""
        before = self._num_seen.get(segment, 0)
        self._num_seen[segment] = before + len(resume)
        new = resume[max(0, len(self.of(segment)) - before) :]
        if new:
            self._share += _RECORD.pack(segment, len(new)) + new

    def take(self) -> bytes:
        """The share of the next event: all that was added since the last call."""
        share, self._share = self._share, b""
        return share


def _parse(state: bytes) -> dict[int, bytes]:
    known: dict[int, bytes] = {}
    position = 0
    while position < len(state):
        if position + _RECORD.size > len(state):
            raise ValueError("the state to resume from is cut off")
        segment, length = _RECORD.unpack_from(state, position)
        position += _RECORD.size
        if position + length > len(state):
            raise ValueError("the state to resume from is cut off")
        known[segment] = known.get(segment, b"") + state[position : position + length]
        position += length
    return known
