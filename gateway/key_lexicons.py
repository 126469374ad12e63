"""The lexicons of API keys, made ready once for many requests."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.text import Lexicon, LexiconError
from shared.telemetry import get_logger
from voices import key_lexicon
from voices.api_keys import ApiKey, KeyId

# One of 1000 phrases takes 1.3 MB.
_MAX_HELD = 256

log = get_logger()


def usable_lexicon(entries: Mapping[str, str], max_entries: int) -> Lexicon:
    """The lexicon of a key, within the bounds of every lexicon. Raises LexiconError."""
    if len(entries) > max_entries:
        raise LexiconError(f"there are {len(entries)} entries; at most {max_entries} are accepted.")
    return Lexicon(entries)


@dataclass(frozen=True, slots=True)
class _Held:
    stored: str
    making: asyncio.Task[tuple[Lexicon, ...]]


class KeyLexicons:
    """Lexicons ready for use, kept for as long as the keys come with the same entries.

    A change is seen when the key is read again, which `gateway.keys.Keys` does every few seconds.
    """

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._held: OrderedDict[KeyId, _Held] = OrderedDict()

    async def of(self, key: ApiKey | None) -> tuple[Lexicon, ...]:
        """What `JobMaker.make` takes; () without a lexicon, and with one that cannot be used."""
        if key is None:
            return ()
        if key.lexicon is None:
            self._held.pop(key.id, None)
            return ()
        held = self._held.get(key.id)
        if held is None or held.stored != key.lexicon:
            # A thousand entries take some 40 ms, too long for the loop that feeds the streams. Many requests at once
            # wait for the same one.
            making = asyncio.create_task(asyncio.to_thread(self._make, key.id, key.lexicon))
            held = self._held[key.id] = _Held(key.lexicon, making)
        self._held.move_to_end(key.id)
        while len(self._held) > _MAX_HELD:
            self._held.popitem(last=False)
        return await asyncio.shield(held.making)

    def _make(self, key_id: KeyId, stored: str) -> tuple[Lexicon, ...]:
        try:
            return (usable_lexicon(key_lexicon.load(stored), self._max_entries),)
        except ValueError as error:
            # `gepard keys` writes none of these: a row changed by hand, or under another bound. The words stay out
            # of the log.
            log.warning("key_lexicon_ignored", key_id=key_id, error=type(error).__name__)
            return ()
