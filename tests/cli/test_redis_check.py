import re

import pytest

from cli.redis_check import require_redis, without_password
from shared.errors import SettingsError


async def test_a_redis_that_answers_will_do(redis_url: str):
    await require_redis(redis_url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "name a Redis: --redis-url, redis.url in the configuration, or GEPARD_REDIS_URL"),
        ("redis://127.0.0.1:1", "cannot use the Redis at redis://127.0.0.1:1: "),
        ("unix:///nowhere.sock", "cannot use the Redis at unix:///nowhere.sock: "),
        ("http://127.0.0.1", "redis.url cannot be read: "),
    ],
    ids=["none", "nobody there", "no socket", "not a Redis URL"],
)
async def test_one_that_cannot_be_used_is_said_so(url: str, message: str):
    with pytest.raises(SettingsError, match=re.escape(message)):
        await require_redis(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:secret@host:6379/0", "redis://host:6379/0"),
        ("redis://:p@ss@host", "redis://host"),
        ("redis://:p#ss?1@host:1", "redis://host:1"),
        ("unix://user:secret@/run/valkey.sock?password=secret", "unix:///run/valkey.sock"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str):
    assert without_password(url) == shown
