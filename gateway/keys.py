"""Who asks? The key of a request, looked up by its hash in a small cache over the database."""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass

from gateway.errors import ApiError
from gateway.usage import UsageLog
from shared.errors import DatabaseError
from shared.telemetry import get_logger
from voices.api_keys import ApiKey, KeyRegistry, hash_key

# A revoked key is refused, and a new one known, within this time on every gateway.
CACHE_S = 3.0
_MAX_CACHED = 4096

# While the database is away, keys that were valid lately stay so for this long.
_STALE_S = 300.0

_BEARER = "bearer"
_HOW = "Send it in the header 'Authorization: Bearer KEY'"

log = get_logger()


@dataclass(frozen=True, slots=True)
class _Entry:
    key: ApiKey | None
    loaded_at: float


class Keys:
    """The valid keys, as this gateway knows them. `load` comes first."""

    def __init__(self, registry: KeyRegistry, usage: UsageLog) -> None:
        self._registry = registry
        self._usage = usage
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._loading: dict[str, asyncio.Task[_Entry]] = {}
        self._required = False
        self._required_at = 0.0

    async def load(self) -> None:
        """Find out whether keys are required. Raises DatabaseError."""
        self._required_at = time.monotonic()
        self._required = await self._registry.any_configured()

    async def required(self) -> bool:
        """Whether requests need a key: once one was made, for good."""
        if not self._required and time.monotonic() - self._required_at > CACHE_S:
            try:
                await self.load()
            except DatabaseError as error:
                log.warning("keys_not_read", error=str(error))
        return self._required

    async def authenticate(self, authorization: str | None) -> ApiKey:
        """The valid key in an Authorization header. Raises ApiError: 401, or 503 without the database."""
        scheme, _, secret = (authorization or "").strip().partition(" ")
        secret = secret.strip()
        if scheme.lower() != _BEARER or not secret:
            raise _unauthorized(f"You did not provide an API key. {_HOW}; `gepard keys create` makes one.")
        key = await self._find(hash_key(secret))
        if key is None:
            raise _unauthorized(f"Incorrect API key provided. {_HOW}; `gepard keys list` shows those there are.")
        if key.revoked_at is not None:
            raise _unauthorized("This API key was revoked. Ask the operator of this server for another one.")
        self._usage.seen(key.id)
        return key

    async def _find(self, key_hash: str) -> ApiKey | None:
        entry = self._entries.get(key_hash)
        if entry is None or time.monotonic() - entry.loaded_at > CACHE_S:
            # Many requests with one key ask the database once.
            loading = self._loading.get(key_hash)
            if loading is None:
                loading = self._loading[key_hash] = asyncio.create_task(self._load(key_hash))
                loading.add_done_callback(lambda task: self._loaded(key_hash, task))
            entry = await asyncio.shield(loading)
        return entry.key

    async def _load(self, key_hash: str) -> _Entry:
        try:
            key = await self._registry.find(key_hash)
        except DatabaseError as error:
            known = self._entries.get(key_hash)
            if known is None or time.monotonic() - known.loaded_at > _STALE_S:
                raise ApiError("database_unavailable", "API keys cannot be checked at the moment.") from error
            log.warning("keys_not_read", error=str(error))
            return known
        entry = self._entries[key_hash] = _Entry(key, time.monotonic())
        self._entries.move_to_end(key_hash)
        while len(self._entries) > _MAX_CACHED:
            self._entries.popitem(last=False)
        return entry

    def _loaded(self, key_hash: str, task: asyncio.Task[_Entry]) -> None:
        self._loading.pop(key_hash, None)
        if not task.cancelled():
            task.exception()  # those who waited have it; there may be none left


def _unauthorized(message: str) -> ApiError:
    return ApiError("invalid_api_key", message, headers={"www-authenticate": "Bearer"})
