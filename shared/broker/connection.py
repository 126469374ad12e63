"""Connections to Redis or Valkey, opened before they are needed."""

import asyncio
from typing import Any

import msgspec
from arq.connections import ArqRedis

from shared.broker.redis_url import pool_of


def _encode_foreign(value: object) -> str:
    # arq also serialises the exception of a failed job.
    return repr(value)


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_foreign)
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()


def connect(url: str, *, max_connections: int) -> ArqRedis:
    """A client on a bounded pool; jobs are msgpack, never pickle. Raises ValueError for a URL it cannot read.

    Blocking reads hold a connection each: beyond the bound a caller waits for one.
    """
    pool = pool_of(url, max_connections=max_connections)
    return ArqRedis(pool, job_serializer=_encoder.encode, job_deserializer=_decoder.decode)


async def warm(redis: ArqRedis, num_connections: int) -> None:
    """Open connections ahead: one opened while audio flows would be heard. Raises RedisError."""
    connections = await asyncio.gather(*(redis.connection_pool.get_connection() for _ in range(num_connections)))
    for connection in connections:
        await redis.connection_pool.release(connection)
