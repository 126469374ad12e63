"""Say plainly that a Redis cannot be used, before anything is built on it."""

import asyncio
import re

from redis.asyncio import Redis
from redis.exceptions import RedisError

from shared.broker.redis_url import pool_of
from shared.errors import SettingsError

_TIMEOUT_S = 10.0


async def require_redis(url: str) -> None:
    """Raise SettingsError when no Redis is named, it does not answer, or it is a node of a cluster."""
    if not url:
        raise SettingsError("name a Redis: --redis-url, redis.url in the configuration, or GEPARD_REDIS_URL")
    try:
        redis = Redis.from_pool(pool_of(url, max_connections=1))
    except ValueError as error:
        raise SettingsError(f"redis.url cannot be read: {error}") from error
    shown = without_password(url)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await redis.ping()
            is_cluster = await _is_cluster(redis)
    except TimeoutError as error:
        raise SettingsError(f"the Redis at {shown} does not answer") from error
    except (RedisError, OSError) as error:
        raise SettingsError(f"cannot use the Redis at {shown}: {error}") from error
    finally:
        await redis.aclose()
    if is_cluster:
        raise SettingsError(
            f"the Redis at {shown} is a node of a Redis Cluster, which cannot be used: the queue's transactions span "
            "its slots; name one Redis, or Sentinels (docs/deployment.md)"
        )


async def _is_cluster(redis: Redis) -> bool:
    try:
        return str((await redis.info("cluster")).get("cluster_enabled")) == "1"
    except RedisError:
        return False  # a user that may not ask


def without_password(url: str) -> str:
    """A URL that may be shown."""
    return re.sub(r"\?.*", "", re.sub(r"//.*@", "//", url))
