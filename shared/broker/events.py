"""Reply streams: a worker writes the events of one attempt, one gateway reads them.

A reply is a Redis Stream. Nothing unread is ever trimmed; the reader deletes what it has read, so the length
of the stream is what the client has not taken. The key expires unless one of the two sides is alive.
"""

import time
from collections import deque

import msgspec
from redis.asyncio import Redis

from shared.broker import keys
from shared.contracts import Audio, Done, Event, Failed, Job, Profiled, Started
from shared.errors import ReplyGap

_FIELD = b"e"
_READ_COUNT = 64

_RENEWALS_PER_TTL = 4
_MAX_UNCOUNTED = 1024
"""Events after which the writer asks how many were read, however small they were."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Event)


class ReplyGone(Exception):
    """The reader deleted the stream: nobody wants the rest."""


class ClientTooSlow(Exception):
    """More unread audio than `max_bytes`."""


class ReplyWriter:
    """The worker's end of one attempt's reply."""

    def __init__(self, redis: Redis, job: Job, *, ttl_s: int, max_bytes: int) -> None:
        self._redis = redis
        self._key = keys.reply(job.id, job.attempt)
        self._cancelled_key = keys.cancelled(keys.attempt(job.id, job.attempt))
        self._ttl_s = ttl_s
        self._max_bytes = max_bytes
        self._sizes: deque[int] = deque()
        # Of the events in `_sizes`, which may have been read since.
        self._num_bytes = 0
        self._renewed = time.monotonic()

    async def begin(self, event: Started) -> bool:
        """Create the stream with its first event; False, and no stream, when the attempt was cancelled.

        The mark is looked at after the stream is there, in the same round trip: a cancel that comes later
        deletes the stream itself.
        """
        payload = _encoder.encode(event)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.xadd(self._key, {_FIELD: payload})
            pipe.expire(self._key, self._ttl_s)
            pipe.exists(self._cancelled_key)
            _, _, cancelled = await pipe.execute()
        if cancelled:
            await self._redis.delete(self._key)
            return False
        self._count(payload)
        return True

    async def write(self, event: Audio | Done | Failed | Profiled) -> None:
        """Append an event; the key's life is renewed every quarter of it.

        A write after the reader deleted the stream must not bring it back, it raises ReplyGone. Raises
        ClientTooSlow when the unread events together exceed `max_bytes`; this one is written all the same.
        """
        payload = _encoder.encode(event)
        # One command where one will do: at hundreds of events a second, each costs the worker a tenth of its time.
        entry = await self._redis.xadd(self._key, {_FIELD: payload}, nomkstream=True)
        if entry is None:
            raise ReplyGone
        self._count(payload)
        if time.monotonic() - self._renewed > self._ttl_s / _RENEWALS_PER_TTL:
            await self.touch()
        if self._num_bytes > self._max_bytes or len(self._sizes) > _MAX_UNCOUNTED:
            unread = await self._redis.xlen(self._key)
            while len(self._sizes) > unread:
                self._num_bytes -= self._sizes.popleft()
        if self._num_bytes > self._max_bytes:
            raise ClientTooSlow

    def _count(self, payload: bytes) -> None:
        self._sizes.append(len(payload))
        self._num_bytes += len(payload)

    async def touch(self) -> None:
        """Renew the key's life while the engine is silent."""
        self._renewed = time.monotonic()
        await self._redis.expire(self._key, self._ttl_s)


class ReplyReader:
    """The gateway's end of one attempt's reply."""

    def __init__(self, redis: Redis, job: Job, *, ttl_s: int) -> None:
        self._redis = redis
        self._key = keys.reply(job.id, job.attempt)
        self._ttl_s = ttl_s
        self._last = b"0-0"
        self._read: list[bytes] = []
        self._next_seq = 0

    async def read(self, block_ms: int) -> list[Event]:
        """The next events in order; empty after `block_ms` without one. Raises ReplyGap if one is missing."""
        async with self._redis.pipeline(transaction=False) as pipe:
            if self._read:
                pipe.xdel(self._key, *self._read)
            pipe.xread({self._key: self._last}, block=block_ms, count=_READ_COUNT)
            streams = (await pipe.execute())[-1]
        self._read = []
        if not streams:
            return []
        entries = streams[0][1]
        self._read = [entry_id for entry_id, _ in entries]
        self._last = self._read[-1]
        events = [_decoder.decode(fields[_FIELD]) for _, fields in entries]
        for event in events:
            if isinstance(event, Audio):
                if event.seq != self._next_seq:
                    raise ReplyGap(f"expected audio event {self._next_seq}, got {event.seq}")
                self._next_seq += 1
        return events

    async def touch(self) -> None:
        """Renew the key's life while the client takes nothing."""
        await self._redis.expire(self._key, self._ttl_s)

    async def delete(self) -> None:
        """Remove the stream; a worker still writing stops at its next event."""
        await self._redis.delete(self._key)
