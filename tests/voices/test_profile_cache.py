"""Clips and profiles in Redis: found by what they are, bounded, and gone without harm."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import numpy as np
import pytest
from arq.connections import ArqRedis

from shared.broker import keys
from shared.broker.connection import connect
from shared.clip import MAX_CLIP_BYTES, Clip
from tests.support.engines import engine_info
from voices.profile_cache import CLIP_TTL_S, MAX_PROFILE_BYTES, PROFILE_TTL_S, ProfileCache

INFO = engine_info()
NAMES = [f"{number:064x}" for number in range(5)]


def clip(num_samples: int = 100) -> Clip:
    return Clip(samples=np.linspace(-1, 1, num_samples, dtype=np.float32), rate_hz=22050)


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[ArqRedis]:
    client = connect(redis_url, max_connections=4)
    yield client
    await client.aclose(close_connection_pool=True)


@pytest.fixture
def cache(redis: ArqRedis) -> ProfileCache:
    return ProfileCache(redis, max_profiles=3)


async def keep(cache: ProfileCache, redis: ArqRedis, name: str, profile: bytes) -> None:
    """Keep a profile, as a worker does while the clip is laid out; then the clip expires."""
    await redis.set(keys.clip(name), b"")
    assert await cache.put(name, INFO, profile)
    await redis.delete(keys.clip(name))


async def test_a_clip_arrives_as_it_was_put(cache, redis):
    await cache.put_clip(clip())
    arrived = await cache.get_clip(clip().sha256)
    np.testing.assert_array_equal(arrived.samples, clip().samples)
    assert arrived.rate_hz == 22050
    assert 0 < await redis.ttl(keys.clip(clip().sha256)) <= CLIP_TTL_S


async def test_a_clip_in_use_does_not_expire(cache, redis):
    await cache.put_clip(clip())
    await redis.expire(keys.clip(clip().sha256), 2)
    assert await cache.has_clip(clip().sha256)
    assert await redis.ttl(keys.clip(clip().sha256)) > 2
    assert not await cache.has_clip(NAMES[0])


async def test_the_largest_clip_fits_and_no_larger_one(cache):
    most = (MAX_CLIP_BYTES - 4) // 4
    await cache.put_clip(clip(most))
    assert await cache.get_clip(clip(most).sha256) is not None
    with pytest.raises(ValueError, match="at most"):
        await cache.put_clip(clip(most + 1))


@pytest.mark.parametrize("stored", [b"", b"rubbish", clip(50).to_bytes()], ids=["empty", "rubbish", "another clip"])
async def test_what_is_not_the_clip_counts_as_missing(cache, redis, stored):
    await redis.set(keys.clip(clip().sha256), stored)
    assert await cache.get_clip(clip().sha256) is None


async def test_a_profile_is_found_by_clip_model_and_both_revisions(cache, redis):
    await keep(cache, redis, NAMES[0], b"profile")
    assert await cache.get(NAMES[0], INFO) == b"profile"
    assert await cache.get(NAMES[1], INFO) is None
    for change in ({"model": "other"}, {"revision": "other"}, {"compressor_revision": "other"}):
        assert await cache.get(NAMES[0], msgspec.structs.replace(INFO, **change)) is None


async def test_the_least_recently_used_profile_leaves_first(cache, redis):
    for name in NAMES[:3]:
        await keep(cache, redis, name, name.encode())
    assert await cache.get(NAMES[0], INFO)  # used: now the youngest
    await keep(cache, redis, NAMES[3], b"new")
    assert [await cache.get(name, INFO) is not None for name in NAMES[:4]] == [True, False, True, True]
    assert len(await redis.keys("gepard:profile:*")) == await redis.zcard(keys.PROFILES) == 3


async def test_writers_at_once_stay_within_the_bound(cache, redis):
    await asyncio.gather(*(keep(cache, redis, f"{number:064x}", b"p") for number in range(40)))
    assert len(await redis.keys("gepard:profile:*")) == await redis.zcard(keys.PROFILES) <= 3
    assert await redis.zcard(keys.PROFILES)


async def test_an_unused_profile_expires_and_its_name_with_it(cache, redis):
    await keep(cache, redis, NAMES[0], b"p")
    key = keys.profile(NAMES[0], INFO)
    await redis.expire(key, 5)
    await cache.get(NAMES[0], INFO)
    assert await redis.ttl(key) > PROFILE_TTL_S - 5
    await redis.delete(key)
    assert await cache.get(NAMES[0], INFO) is None
    assert await redis.zcard(keys.PROFILES) == 0


async def test_a_dropped_clip_leaves_nothing(cache, redis):
    await cache.put_clip(clip())
    await cache.put(clip().sha256, INFO, b"p")
    await keep(cache, redis, NAMES[1], b"q")
    await cache.drop(clip().sha256)
    assert set(await redis.keys("gepard:*")) == {
        keys.PROFILES.encode(),
        keys.profile(NAMES[1], INFO).encode(),
    }


async def test_a_profile_that_is_put_while_its_clip_is_dropped_does_not_stay(cache, redis, monkeypatch):
    """Of the two workers that made one, the second puts it just behind the look at what there is."""
    await cache.put_clip(clip())
    listing = redis.zrange

    async def then_put(*arguments):
        listed = await listing(*arguments)
        await cache.put(clip().sha256, INFO, b"p")
        return listed

    monkeypatch.setattr(redis, "zrange", then_put)
    await cache.drop(clip().sha256)
    assert await redis.keys("gepard:*") == []


async def test_a_profile_too_large_is_not_kept(cache):
    with pytest.raises(ValueError, match="at most"):
        await cache.put(NAMES[0], INFO, bytes(MAX_PROFILE_BYTES + 1))


async def test_a_profile_of_a_clip_that_was_dropped_meanwhile_is_not_kept(cache, redis):
    await cache.put_clip(clip())
    await cache.drop(clip().sha256)
    assert not await cache.put(clip().sha256, INFO, b"p")
    assert await redis.keys("gepard:*") == []
