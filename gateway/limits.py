"""What a key may use: requests in any minute, characters a day, streams at once.

Counted in Redis, in one atomic step for all three, so that the limits hold exactly over all gateways. Redis's
clock is the only one that counts. Requests are a log of the last minute (a fixed window would let twice the
limit through at its edge); streams are leases that expire, so that a killed gateway's are free again.

A request counts when all limits let it pass; one that is refused uses nothing. Its characters are given back
when it ends before any audio was sent.
"""

import asyncio
import contextlib
import math
import secrets
from collections import defaultdict
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.errors import ApiError
from gateway.usage import UsageLog
from shared.broker import keys
from shared.settings import LimitsSettings
from shared.telemetry import get_logger
from voices.api_keys import ApiKey, KeyId, KeyLimits

_RENEWALS_PER_LEASE = 3

# Streams also end on other gateways, which only Redis knows.
_POLL_S = 0.05
_MAX_WAITING_PER_KEY = 32

_NO_LIMIT = -1

# Time in whole milliseconds; a limit of -1 is none.
_CLOCK = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local DAY, MINUTE = 86400000, 60000
"""

_ADMIT = f"""{_CLOCK}
local window, characters, leases = KEYS[1], KEYS[2], KEYS[3]
local id, wanted, lease_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local per_minute, per_day, streams = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local day = math.floor(now / DAY)
local midnight_ms = (day + 1) * DAY - now
local requests_left, requests_reset_ms, characters_left = -1, 0, -1

if per_minute >= 0 then
  redis.call('ZREMRANGEBYSCORE', window, '-inf', now - MINUTE)
  local used = redis.call('ZCARD', window)
  if used > 0 then
    local newest = redis.call('ZRANGE', window, -1, -1, 'WITHSCORES')
    requests_reset_ms = newest[2] + MINUTE - now
  end
  requests_left = math.max(0, per_minute - used)
end
if per_day >= 0 then
  characters_left = math.max(0, per_day - tonumber(redis.call('GET', characters) or 0))
end
if requests_left == 0 then
  -- More than the limit are in the window after an operator has lowered it.
  local index = redis.call('ZCARD', window) - per_minute
  local leaves = redis.call('ZRANGE', window, index, index, 'WITHSCORES')
  return {{1, requests_left, requests_reset_ms, characters_left, midnight_ms, leaves[2] + MINUTE - now, day}}
end
if per_day >= 0 and wanted > characters_left then
  return {{2, requests_left, requests_reset_ms, characters_left, midnight_ms, midnight_ms, day}}
end
if streams >= 0 then
  redis.call('ZREMRANGEBYSCORE', leases, '-inf', now)
  if redis.call('ZCARD', leases) >= streams then
    return {{3, requests_left, requests_reset_ms, characters_left, midnight_ms, 0, day}}
  end
  redis.call('ZADD', leases, now + lease_ms, id)
  redis.call('PEXPIRE', leases, lease_ms)
end
if per_minute >= 0 then
  redis.call('ZADD', window, now, id)
  redis.call('PEXPIRE', window, MINUTE)
  requests_left, requests_reset_ms = requests_left - 1, MINUTE
end
if per_day >= 0 then
  redis.call('INCRBY', characters, wanted)
  redis.call('PEXPIRE', characters, midnight_ms)
  characters_left = characters_left - wanted
end
return {{0, requests_left, requests_reset_ms, characters_left, midnight_ms, 0, day}}
"""

# Characters of a day that is over are not given back to the next.
_RELEASE = f"""{_CLOCK}
local characters, leases = KEYS[1], KEYS[2]
local id, returned, day = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREM', leases, id)
if returned > 0 and day == math.floor(now / DAY) then
  local used = tonumber(redis.call('GET', characters) or 0)
  if used > 0 then redis.call('DECRBY', characters, math.min(used, returned)) end
end
"""

# Also brings back a lease that expired while its gateway stood still: the stream runs, so it counts.
_RENEW = f"""{_CLOCK}
local lease_ms = tonumber(ARGV[1])
for index = 2, #ARGV do redis.call('ZADD', KEYS[1], now + lease_ms, ARGV[index]) end
redis.call('PEXPIRE', KEYS[1], lease_ms)
"""

log = get_logger()


class Verdict(IntEnum):
    """The first number of the script's answer: admitted, or the limit that says no."""

    ADMITTED = 0
    REQUESTS = 1
    CHARACTERS = 2
    STREAMS = 3


class Answer(NamedTuple):
    """What the script says. -1 is left where there is no limit; `day` counts from 1970."""

    verdict: Verdict
    requests_left: int
    requests_reset_ms: int
    characters_left: int
    characters_reset_ms: int
    retry_ms: int
    day: int


@dataclass(slots=True)
class _Line:
    """The requests of one key that wait in this gateway for a stream to end, first come first served."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    freed: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0


class Permit:
    """A request's share of its key's limits; close it when the request ends, however it does."""

    def __init__(self, limits: "Limits", key: ApiKey, permit_id: str, characters: int, answer: Answer | None) -> None:
        self.id = permit_id
        self.key = key
        self.characters = characters
        self.answer = answer
        """None: the key has no limits, and nothing was counted in Redis."""
        self._limits = limits

    @property
    def headers(self) -> dict[str, str]:
        """The `x-ratelimit-*` headers."""
        return {} if self.answer is None else rate_limit_headers(self.key.limits, self.answer)

    async def close(self, *, delivered: bool, audio_s: float) -> None:
        """Free the stream; give back the characters unless audio was `delivered`. Raises RedisError."""
        await self._limits.leave(self, delivered=delivered, audio_s=audio_s)


class Limits:
    """Admits the requests of keys. `keep_leases` must run beside it."""

    def __init__(self, redis: Redis, usage: UsageLog, settings: LimitsSettings) -> None:
        self._redis = redis
        self._usage = usage
        self._lease_s = settings.stream_lease_s
        self._wait_s = settings.stream_wait_s
        self._max_waiting = settings.max_pending
        self._admit = redis.register_script(_ADMIT)
        self._release = redis.register_script(_RELEASE)
        self._renew = redis.register_script(_RENEW)
        self._held: dict[KeyId, set[str]] = defaultdict(set)
        self._lines: dict[KeyId, _Line] = {}

    async def enter(self, key: ApiKey, characters: int) -> Permit:
        """Admit a request of that many characters; wait a little for a stream of the key to end.

        Raises ApiError: a limit says no, or Redis cannot be asked. Cancelling it leaves nothing behind.
        """
        if key.limits == KeyLimits():
            return Permit(self, key, "", characters, None)
        permit_id = secrets.token_hex(8)
        try:
            answer = await self._answer(key, permit_id, characters)
        except (RedisError, OSError) as error:
            raise ApiError("broker_unavailable", "The message broker cannot be reached.") from error
        if answer.verdict is not Verdict.ADMITTED:
            raise _refusal(key.limits, answer, characters)
        if key.limits.concurrent_streams is not None:
            self._held[key.id].add(permit_id)
        return Permit(self, key, permit_id, characters, answer)

    async def leave(self, permit: Permit, *, delivered: bool, audio_s: float) -> None:
        """End a request, as its permit's `close` says. Without Redis its lease ends by itself."""
        key = permit.key
        self._usage.add(key.id, characters=permit.characters if delivered else 0, audio_s=audio_s)
        if permit.answer is None:
            return
        self._drop(key.id, permit.id)
        await self._give_back(key.id, permit.id, 0 if delivered else permit.characters, permit.answer.day)
        if line := self._lines.get(key.id):
            line.freed.set()

    async def keep_leases(self) -> None:
        """Renew the leases of running streams until cancelled."""
        while True:
            await asyncio.sleep(self._lease_s / _RENEWALS_PER_LEASE)
            for key_id, ids in list(self._held.items()):
                try:
                    await self._renew_leases(key_id, frozenset(ids))
                except (RedisError, OSError) as error:
                    log.warning("leases_not_renewed", key_id=key_id, error=type(error).__name__)

    async def _renew_leases(self, key_id: KeyId, ids: frozenset[str]) -> None:
        await self._renew(keys=[keys.leases(key_id)], args=[self._lease_ms, *ids])
        # A stream that ended meanwhile may have been freed before it was renewed.
        for ended in ids - self._held.get(key_id, set()):
            await self._give_back(key_id, ended, 0, 0)

    @property
    def _lease_ms(self) -> int:
        return round(1000 * self._lease_s)

    def _drop(self, key_id: KeyId, permit_id: str) -> None:
        self._held[key_id].discard(permit_id)
        if not self._held[key_id]:
            del self._held[key_id]

    async def _answer(self, key: ApiKey, permit_id: str, characters: int) -> Answer:
        """Ask at once, unless others of this key wait already; then, or when all streams are taken, in line."""
        line = self._lines.get(key.id)
        answer: Answer | None = None
        if line is None:
            answer = await self._ask(key, permit_id, characters)
            if answer.verdict is not Verdict.STREAMS:
                return answer
            line = self._lines.setdefault(key.id, _Line())
        if line.waiting < _MAX_WAITING_PER_KEY and sum(one.waiting for one in self._lines.values()) < self._max_waiting:
            line.waiting += 1
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._wait_s), line.turn:
                        return await self._poll(line, key, permit_id, characters)
            finally:
                line.waiting -= 1
                if not line.waiting:
                    self._lines.pop(key.id, None)
        return answer or await self._ask(key, permit_id, characters)

    async def _poll(self, line: _Line, key: ApiKey, permit_id: str, characters: int) -> Answer:
        while True:
            line.freed.clear()
            answer = await self._ask(key, permit_id, characters)
            if answer.verdict is not Verdict.STREAMS:
                return answer
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await line.freed.wait()

    async def _ask(self, key: ApiKey, permit_id: str, characters: int) -> Answer:
        asking = asyncio.ensure_future(self._run_admit(key, permit_id, characters))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            # Shielded: the client may hang up just as its wait runs out.
            await asyncio.shield(self._take_back(asking, key, permit_id, characters))
            raise

    async def _take_back(self, asking: asyncio.Future[Answer], key: ApiKey, permit_id: str, characters: int) -> None:
        """Undo what the script may have admitted for a request that nobody waits for any more."""
        with contextlib.suppress(RedisError, OSError):
            answer = await asking
            if answer.verdict is Verdict.ADMITTED:
                await self._give_back(key.id, permit_id, characters, answer.day)

    async def _run_admit(self, key: ApiKey, permit_id: str, characters: int) -> Answer:
        limits = (key.limits.requests_per_minute, key.limits.characters_per_day, key.limits.concurrent_streams)
        verdict, *numbers = await self._admit(
            keys=[keys.request_window(key.id), keys.characters(key.id), keys.leases(key.id)],
            args=[permit_id, characters, self._lease_ms, *(_NO_LIMIT if one is None else one for one in limits)],
        )
        return Answer(Verdict(verdict), *numbers)

    async def _give_back(self, key_id: KeyId, permit_id: str, characters: int, day: int) -> None:
        await self._release(keys=[keys.characters(key_id), keys.leases(key_id)], args=[permit_id, characters, day])


def _refusal(limits: KeyLimits, answer: Answer, characters: int) -> ApiError:
    headers = rate_limit_headers(limits, answer)
    match answer.verdict:
        case Verdict.CHARACTERS:
            # Nothing changes until midnight: a client must not try again and again.
            return ApiError(
                "insufficient_quota",
                f"This request has {characters} characters; {answer.characters_left} of the "
                f"{limits.characters_per_day} that this API key has a day are left. "
                f"More come in {duration(answer.characters_reset_ms)}, at midnight UTC.",
                headers={**_retry_after(answer.retry_ms), "x-should-retry": "false", **headers},
            )
        case Verdict.REQUESTS:
            return ApiError(
                "rate_limit_exceeded",
                f"This API key may make {limits.requests_per_minute} requests a minute. "
                f"Try again in {duration(answer.retry_ms)}.",
                headers={**_retry_after(answer.retry_ms), **headers},
            )
        case _:
            return ApiError(
                "rate_limit_exceeded",
                f"This API key may have {limits.concurrent_streams} requests at once, and they are still running. "
                "Try again when one has ended.",
                headers=headers,
            )


def _retry_after(wait_ms: float) -> dict[str, str]:
    return {"retry-after": str(max(1, math.ceil(wait_ms / 1000)))}


def rate_limit_headers(limits: KeyLimits, answer: Answer) -> dict[str, str]:
    """OpenAI's headers for the limits that the key has; characters take the place of tokens."""
    headers: dict[str, str] = {}
    for name, limit, left, reset_ms in (
        ("requests", limits.requests_per_minute, answer.requests_left, answer.requests_reset_ms),
        ("tokens", limits.characters_per_day, answer.characters_left, answer.characters_reset_ms),
    ):
        if limit is not None:
            headers[f"x-ratelimit-limit-{name}"] = str(limit)
            headers[f"x-ratelimit-remaining-{name}"] = str(left)
            headers[f"x-ratelimit-reset-{name}"] = duration(reset_ms)
    return headers


def duration(milliseconds: int) -> str:
    """As OpenAI writes it: 12ms, 1s, 6m0s, 3h2m1s; never less than there is."""
    if milliseconds < 1000:  # noqa: PLR2004
        return f"{milliseconds}ms"
    minutes, seconds = divmod(math.ceil(milliseconds / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
