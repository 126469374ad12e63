"""Clips on their way to workers, and what engines made of them: both in Redis, both bounded, both replaceable.

A worker that finds no profile makes one from the clip; where the clip has expired, too, whoever asked for the
voice puts it again. So nothing here needs to be kept, and everything may be evicted at any time.
"""

import time

from redis.asyncio import Redis

from shared.broker import keys
from shared.clip import MAX_CLIP_BYTES, Clip
from shared.contracts import EngineInfo

CLIP_TTL_S = 300
"""Long enough for a job that waits; a clip is put again for each job that needs it."""

PROFILE_TTL_S = 7 * 24 * 3600
"""Since the last use."""

MAX_PROFILES = 1024
MAX_PROFILE_BYTES = 512 * 1024
"""Together 512 MiB at the very worst; a profile of Gepard's has some 32 KiB, the embedded engine's 100 bytes."""


class ProfileCache:
    """Shared by all workers and gateways of one Redis; the least recently used profile leaves first.

    Methods raise RedisError when Redis cannot be reached.
    """

    def __init__(self, redis: Redis, *, max_profiles: int = MAX_PROFILES) -> None:
        self._redis = redis
        self._max_profiles = max_profiles

    async def put_clip(self, clip: Clip) -> None:
        """Lay a clip out for workers, for `CLIP_TTL_S` from now on. Raises ValueError beyond MAX_CLIP_BYTES."""
        data = clip.to_bytes()
        if len(data) > MAX_CLIP_BYTES:
            raise ValueError(f"the clip has {len(data)} bytes, at most {MAX_CLIP_BYTES} can be handed over")
        await self._redis.set(keys.clip(clip.sha256), data, ex=CLIP_TTL_S)

    async def has_clip(self, sha256: str) -> bool:
        """Whether a clip is laid out; if so, its time begins anew."""
        return bool(await self._redis.expire(keys.clip(sha256), CLIP_TTL_S))

    async def get_clip(self, sha256: str) -> Clip | None:
        """A clip that was laid out; None if it has expired or is not what its name says."""
        data = await self._redis.get(keys.clip(sha256))
        if data is None:
            return None
        try:
            clip = Clip.from_bytes(data)
        except ValueError:
            return None
        return clip if clip.sha256 == sha256 else None

    async def put(self, sha256: str, info: EngineInfo, profile: bytes) -> None:
        """Keep what this revision of an engine made of a clip. Raises ValueError beyond MAX_PROFILE_BYTES."""
        if len(profile) > MAX_PROFILE_BYTES:
            raise ValueError(f"the profile has {len(profile)} bytes, at most {MAX_PROFILE_BYTES} are kept")
        key = keys.profile(sha256, info)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(key, profile, ex=PROFILE_TTL_S)
            pipe.zadd(keys.PROFILES, {key: time.time()})
            pipe.zcard(keys.PROFILES)
            *_, num_profiles = await pipe.execute()
        if num_profiles > self._max_profiles:
            await self._evict(num_profiles - self._max_profiles)

    async def get(self, sha256: str, info: EngineInfo) -> bytes | None:
        """What this revision of an engine made of a clip, if it is still there; counts as a use."""
        key = keys.profile(sha256, info)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.getex(key, ex=PROFILE_TTL_S)
            pipe.zadd(keys.PROFILES, {key: time.time()})
            profile, _ = await pipe.execute()
        if profile is None:
            await self._redis.zrem(keys.PROFILES, key)
            return None
        return bytes(profile)

    async def drop(self, sha256: str) -> None:
        """Forget a clip and all that engines made of it, as when its voice is deleted."""
        prefix = keys.profiles_of(sha256).encode()
        listed = [key for key in await self._redis.zrange(keys.PROFILES, 0, -1) if key.startswith(prefix)]
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.delete(keys.clip(sha256), *listed)
            if listed:
                pipe.zrem(keys.PROFILES, *listed)
            await pipe.execute()

    async def _evict(self, num_profiles: int) -> None:
        # Two that evict at once take a few too many: they are made again.
        oldest = await self._redis.zpopmin(keys.PROFILES, num_profiles)
        if oldest:
            await self._redis.delete(*(key for key, _ in oldest))
