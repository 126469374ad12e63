"""Say plainly that a Redis cannot be used, before anything is built on it."""

import asyncio
import re

from redis.asyncio import Redis
from redis.exceptions import RedisError

from shared.errors import SettingsError

_TIMEOUT_S = 10.0


async def require_redis(url: str) -> None:
    """Raise SettingsError when no Redis is named or it does not answer."""
    if not url:
        raise SettingsError("name a Redis: --redis-url, redis.url in the configuration, or GEPARD_REDIS_URL")
    try:
        redis = Redis.from_url(url)
    except ValueError as error:
        raise SettingsError(f"redis.url cannot be read: {error}") from error
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await redis.ping()
    except TimeoutError as error:
        raise SettingsError(f"the Redis at {without_password(url)} does not answer") from error
    except (RedisError, OSError) as error:
        raise SettingsError(f"cannot use the Redis at {without_password(url)}: {error}") from error
    finally:
        await redis.aclose()


def without_password(url: str) -> str:
    """A URL that may be shown."""
    return re.sub(r"\?.*", "", re.sub(r"//.*@", "//", url))
