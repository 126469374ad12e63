"""Counts what keys use in memory and adds it to the database every few seconds: no request waits for that.

A gateway that is killed loses the last seconds of these statistics. The limits do not depend on them.
"""

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime

from shared.errors import DatabaseError
from shared.telemetry import get_logger
from voices.api_keys import DayUsage, KeyId, KeyRegistry

_FLUSH_S = 5.0

log = get_logger()


@dataclass(slots=True)
class _Counts:
    requests: int = 0
    characters: int = 0
    audio_seconds: float = 0.0


class UsageLog:
    """What was used since the last flush; bounded by the number of keys. `run` must run beside it."""

    def __init__(self, registry: KeyRegistry) -> None:
        self._registry = registry
        self._counts: dict[tuple[KeyId, date], _Counts] = defaultdict(_Counts)
        self._last_used: dict[KeyId, datetime] = {}

    def seen(self, key_id: KeyId) -> None:
        """Note that the key was used now."""
        self._last_used[key_id] = datetime.now(UTC)

    def add(self, key_id: KeyId, *, characters: int, audio_s: float) -> None:
        """Count one request."""
        counts = self._counts[key_id, datetime.now(UTC).date()]
        counts.requests += 1
        counts.characters += characters
        counts.audio_seconds += audio_s

    async def run(self) -> None:
        """Flush until cancelled."""
        while True:
            await asyncio.sleep(_FLUSH_S)
            await self.flush()

    async def flush(self) -> None:
        """Write what there is; what cannot be written now is kept for the next time."""
        if not self._counts and not self._last_used:
            return
        counts, last_used = dict(self._counts), dict(self._last_used)
        self._counts.clear()
        self._last_used.clear()
        used = [
            DayUsage(
                key_id=key_id,
                day=day,
                requests=one.requests,
                characters=one.characters,
                audio_seconds=one.audio_seconds,
            )
            for (key_id, day), one in counts.items()
        ]
        try:
            await self._registry.record(used, last_used.items())
        except BaseException as error:
            # Also when a gateway that stops cancels it: the last flush is still to come.
            for at, one in counts.items():
                kept = self._counts[at]
                kept.requests += one.requests
                kept.characters += one.characters
                kept.audio_seconds += one.audio_seconds
            self._last_used = {**last_used, **self._last_used}
            if not isinstance(error, DatabaseError):
                raise
            log.warning("usage_not_written", error=str(error))
