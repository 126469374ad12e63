"""Has workers make speaker profiles, and waits for them."""

import asyncio
import secrets
import time

from redis.asyncio import Redis

from shared.broker.events import ReplyReader
from shared.broker.heartbeat import INTERVAL_S, Fleet
from shared.broker.queue import JobQueue
from shared.contracts import (
    HANDED_BACK,
    EngineInfo,
    Failed,
    JobId,
    Profiled,
    ProfileJob,
    ProfileKind,
    Started,
    WorkerId,
)
from shared.errors import VoiceRefused
from shared.settings import Settings
from voices.profile_cache import ProfileCache
from voices.records import profile_kind, revision_of
from voices.stored_clips import StoredClips

_BLOCK_MS = 250
_HAND_OVER_S = 2.0
_NO_ROOM_FOR_REASON = 500

CLIP_UNUSABLE = "clip_unusable"
"""Code of the refusal that is the clip's fault: another try ends the same."""

Outcome = Profiled | Failed


class Profiles:
    """Asks the workers of a model for the profile of a clip; several who wait for one ask once."""

    def __init__(
        self,
        settings: Settings,
        redis: Redis,
        queue: JobQueue,
        fleet: Fleet,
        cache: ProfileCache,
        clips: StoredClips,
    ) -> None:
        self._limits = settings.limits
        self._timeout_s = settings.voices.profile_timeout_s
        self._redis = redis
        self._queue = queue
        self._fleet = fleet
        self._cache = cache
        self._clips = clips
        self._asking: dict[tuple[str, str, str], asyncio.Task[ProfileKind]] = {}

    async def ensure(self, sha256: str, info: EngineInfo) -> ProfileKind:
        """Have the profile of a clip in Redis, made now if it must be; returns its kind.

        The clip is in Redis or in the store. Raises VoiceRefused: `clip_unusable` with the reason, or what may
        pass; RedisError; ClipStoreError.
        """
        kind = profile_kind(info)
        if kind is None:
            raise VoiceRefused(
                "unsupported_parameter", f"The model '{info.model}' has its presets only.", param="voice"
            )
        if await self._cache.has(sha256, info):
            return kind
        key = (sha256, info.model, revision_of(info))
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._ask(sha256, info))
            asking.add_done_callback(lambda task: self._asked(key, task))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.shield(asking)
        except TimeoutError:
            raise VoiceRefused("voice_not_ready", "The voice is still being made; try again later.") from None

    async def close(self) -> None:
        """Stop waiting; what was queued is cancelled."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _asked(self, key: tuple[str, str, str], task: asyncio.Task[ProfileKind]) -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            task.exception()  # those who waited have it; there may be none left

    async def _ask(self, sha256: str, info: EngineInfo) -> ProfileKind:
        try:
            # Without it a job that no worker takes any more would be waited for without an end.
            async with asyncio.timeout(self._limits.request_timeout_s):
                return await self._laid_out(sha256, info)
        except TimeoutError:
            raise VoiceRefused("voice_not_ready", "No worker could make the voice in time; try again later.") from None

    async def _laid_out(self, sha256: str, info: EngineInfo) -> ProfileKind:
        if await self._cache.has_clip(sha256):
            return await self._extract(sha256, info)
        clip = await self._clips.load(sha256)
        if clip is None:
            raise VoiceRefused("profile_unavailable", "The voice was deleted.")
        await self._cache.put_clip(clip)
        try:
            return await self._extract(sha256, info)
        finally:
            # Deleted since it was read from the store: what came after that must go as well.
            await asyncio.shield(self._clips.release(sha256))

    async def _extract(self, sha256: str, info: EngineInfo) -> ProfileKind:
        job_id = JobId(f"profile-{secrets.token_hex(12)}")
        for attempt in range(1, self._limits.max_attempts + 1):
            job = ProfileJob(
                id=job_id,
                attempt=attempt,
                model=info.model,
                sha256=sha256,
                deadline=time.time() + self._limits.request_timeout_s,
            )
            match await self._attempt(job):
                case Profiled(kind=kind):
                    return kind
                case Failed(code=code, message=message) if code not in HANDED_BACK:
                    raise VoiceRefused(code, message[:_NO_ROOM_FOR_REASON])
                case _:
                    continue
        raise VoiceRefused("worker_lost", "The worker that made this voice was lost; try again.")

    async def _attempt(self, job: ProfileJob) -> Outcome | None:
        """What came of an attempt; None if its worker was lost. Leaves nothing behind."""
        reader = ReplyReader(self._redis, job, ttl_s=self._limits.reply_ttl_s)
        outcome: Outcome | None = None
        try:
            # In here: a cancel may come when Redis has the job, and has not said so yet.
            await self._queue.enqueue(job)
            outcome = await self._outcome(job, reader)
        finally:
            await asyncio.shield(reader.delete() if outcome is not None else self._queue.cancel(job))
        return outcome

    async def _outcome(self, job: ProfileJob, reader: ReplyReader) -> Outcome | None:
        worker: WorkerId | None = None
        last_sign, unclaimed_since = time.monotonic(), None
        while True:
            for event in await reader.read(_BLOCK_MS):
                last_sign = time.monotonic()
                match event:
                    case Started():
                        worker = event.worker
                    case Profiled() | Failed():
                        return event
                    case _:
                        raise TypeError(f"a profile job is not answered with {type(event).__name__}")
            await reader.touch()
            now = time.monotonic()
            if worker is not None:
                # A worker that started lately may be too new for the picture of the fleet.
                if now - last_sign > 2 * INTERVAL_S and not self._fleet.is_alive(worker):
                    return None
            elif await self._queue.state(job) == "waiting":
                unclaimed_since = None
            elif unclaimed_since is None:
                unclaimed_since = now
            elif now - unclaimed_since > _HAND_OVER_S:
                return None
