"""Which row of the voice table holds which voice: bounded, the least recently used one goes."""

from collections import OrderedDict


class VoiceRows:
    """Rows by key. A row in use is never given to another voice; there must be more rows than users."""

    def __init__(self, rows: int) -> None:
        self._free = list(range(rows))[::-1]
        self._rows: OrderedDict[bytes, int] = OrderedDict()
        self._users: dict[bytes, int] = {}

    def acquire(self, key: bytes) -> tuple[int, bool]:
        """The row of a voice and whether it must be filled; keeps it until `release`."""
        self._users[key] = self._users.get(key, 0) + 1
        row = self._rows.get(key)
        if row is not None:
            self._rows.move_to_end(key)
            return row, False
        row = self._free.pop() if self._free else self._evict()
        self._rows[key] = row
        return row, True

    def release(self, key: bytes) -> None:
        """One user less. The voice stays until its row is needed."""
        self._users[key] -= 1
        if not self._users[key]:
            del self._users[key]

    @property
    def num_used(self) -> int:
        """Voices that a stream holds."""
        return len(self._users)

    def _evict(self) -> int:
        key = next(key for key in self._rows if key not in self._users)
        return self._rows.pop(key)
