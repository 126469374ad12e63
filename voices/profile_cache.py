"""Clips on their way to workers, and what engines made of them: both in Redis, both bounded, both replaceable.

A worker that finds no profile makes one from the clip; where the clip has expired, too, whoever asked for the
voice puts it again. So nothing here needs to be kept, and everything may be evicted at any time.
"""

import time
from typing import assert_never

from redis.asyncio import Redis

from shared.broker import keys
from shared.clip import MAX_CLIP_BYTES, Clip
from shared.contracts import ClipVoice, EngineInfo, PresetVoice, Voice

CLIP_TTL_S = 300
"""Long enough for a job that waits; a clip is put again for each job that needs it."""

PROFILE_TTL_S = 7 * 24 * 3600
"""Since the last use."""

MAX_PROFILES = 1024
MAX_PROFILE_BYTES = 512 * 1024
"""Together 512 MiB at the very worst; a profile of Gepard's has some 32 KiB, the embedded engine's 100 bytes."""

PREVIEW_TTL_S = 600

# A profile lives no longer than the wish for it: where the clip was dropped meanwhile, its voice was deleted.
_PUT = """
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
redis.call('ZADD', KEYS[3], ARGV[3], KEYS[2])
return redis.call('ZCARD', KEYS[3])
"""

_PUT_PREVIEW = """
if KEYS[2] and redis.call('EXISTS', KEYS[2]) == 0 then return end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
"""


class ProfileCache:
    """Shared by all workers and gateways of one Redis; the least recently used profile leaves first.

    Methods raise RedisError when Redis cannot be reached.
    """

    def __init__(self, redis: Redis, *, max_profiles: int = MAX_PROFILES) -> None:
        self._redis = redis
        self._max_profiles = max_profiles
        self._put = redis.register_script(_PUT)
        self._put_preview = redis.register_script(_PUT_PREVIEW)

    async def ping(self) -> None:
        """Raises RedisError when Redis does not answer."""
        await self._redis.ping()

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

    async def put(self, sha256: str, info: EngineInfo, profile: bytes) -> bool:
        """Keep what this revision of an engine made of a clip that is laid out; False if it was dropped meanwhile.

        Raises ValueError beyond MAX_PROFILE_BYTES.
        """
        if len(profile) > MAX_PROFILE_BYTES:
            raise ValueError(f"the profile has {len(profile)} bytes, at most {MAX_PROFILE_BYTES} are kept")
        num_profiles = await self._put(
            keys=[keys.clip(sha256), keys.profile(sha256, info), keys.PROFILES],
            args=[profile, PROFILE_TTL_S, time.time()],
        )
        if num_profiles > self._max_profiles:
            await self._evict(num_profiles - self._max_profiles)
        return bool(num_profiles >= 0)

    async def has(self, sha256: str, info: EngineInfo) -> bool:
        """Whether the profile is there; counts as a use."""
        key = keys.profile(sha256, info)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.expire(key, PROFILE_TTL_S)
            pipe.zadd(keys.PROFILES, {key: time.time()}, xx=True)
            found, _ = await pipe.execute()
        return bool(found)

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
        # First the clip: from here on no profile of it is kept, so that the list below is whole.
        await self._redis.delete(keys.clip(sha256))
        prefix = keys.profiles_of(sha256).encode()
        listed = [key for key in await self._redis.zrange(keys.PROFILES, 0, -1) if key.startswith(prefix)]
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.delete(keys.previews(sha256), *listed)
            if listed:
                pipe.zrem(keys.PROFILES, *listed)
            await pipe.execute()

    async def put_preview(self, voice: Voice, info: EngineInfo, audio: bytes) -> None:
        """Keep a spoken sample for `PREVIEW_TTL_S`, unless the voice was dropped meanwhile."""
        names = [keys.previews(_preview_name(voice))]
        if isinstance(voice, ClipVoice):
            names.append(keys.profile(voice.sha256, info))
        await self._put_preview(keys=names, args=[_revision_of(info), audio, PREVIEW_TTL_S])

    async def get_preview(self, voice: Voice, info: EngineInfo) -> bytes | None:
        """The sample, if it is still there."""
        audio = await self._redis.hmget(keys.previews(_preview_name(voice)), [_revision_of(info)])  # type: ignore[misc]
        return None if audio[0] is None else bytes(audio[0])

    async def _evict(self, num_profiles: int) -> None:
        # Two that evict at once take a few too many: they are made again.
        oldest = await self._redis.zpopmin(keys.PROFILES, num_profiles)
        if oldest:
            await self._redis.delete(*(key for key, _ in oldest))


def _preview_name(voice: Voice) -> str:
    match voice:
        case PresetVoice(name=name):
            return f"preset-{name}"
        case ClipVoice(sha256=sha256):
            return sha256
    assert_never(voice)


def _revision_of(info: EngineInfo) -> str:
    return f"{info.model}:{info.revision}:{info.compressor_revision}"
