"""Speaker profiles: from the cache in Redis, else made of the clip that lies there."""

import asyncio
import time

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from shared.broker.events import ReplyGone, ReplyWriter
from shared.contracts import Failed, Profiled, ProfileJob, Started, WorkerId
from shared.errors import EngineBroken, EngineError, EngineLost, GepardError
from shared.settings import LimitsSettings
from shared.telemetry import get_logger
from voices.profile_cache import ProfileCache
from workers.engines.base import Engine, SpeakerProfile

log = get_logger()


class ClipGone(GepardError):
    """Neither the profile nor the clip is in Redis: the voice was deleted, or whoever asked must lay it out again."""


class ProfileSource:
    """The profiles of one engine. Nothing is kept here: what is deleted from Redis is gone."""

    def __init__(self, engine: Engine, cache: ProfileCache) -> None:
        self._engine = engine
        self._cache = cache
        self._making: dict[str, asyncio.Task[SpeakerProfile]] = {}

    async def get(self, sha256: str) -> SpeakerProfile:
        """The profile of a clip. Raises ClipGone, EngineError when none can be made, RedisError.

        Requests for one clip at the same time wait for one extraction; a cancel of one leaves it to the others.
        """
        cached = await self._cache.get(sha256, self._engine.info)
        if cached is not None:
            try:
                profile = SpeakerProfile.from_bytes(cached)
            except ValueError:
                log.warning("profile_unreadable", clip=sha256)
            else:
                if profile.fits(self._engine.info):
                    return profile
        making = self._making.get(sha256)
        if making is None:
            making = self._making[sha256] = asyncio.create_task(self._make(sha256))
            making.add_done_callback(lambda task: self._made(sha256, task))
        return await asyncio.shield(making)

    async def _make(self, sha256: str) -> SpeakerProfile:
        clip = await self._cache.get_clip(sha256)
        if clip is None:
            raise ClipGone(f"the clip {sha256} is not laid out")
        began = time.perf_counter()
        profile = await self._engine.profile(clip)
        if not await self._cache.put(sha256, self._engine.info, profile.to_bytes()):
            raise ClipGone(f"the clip {sha256} was dropped")
        log.info(
            "profile_made",
            clip=sha256,
            kind=profile.kind,
            clip_s=round(clip.duration_s, 1),
            run_ms=round(1000 * (time.perf_counter() - began), 1),
        )
        return profile

    def _made(self, sha256: str, task: asyncio.Task[SpeakerProfile]) -> None:
        self._making.pop(sha256, None)
        if not task.cancelled():
            task.exception()  # those who waited have it; there may be none left


class ProfileService:
    """Serves profile jobs with one engine."""

    def __init__(self, redis: Redis, profiles: ProfileSource, worker: WorkerId, limits: LimitsSettings) -> None:
        self._redis = redis
        self._profiles = profiles
        self._worker = worker
        self._limits = limits
        self.broken = asyncio.Event()
        """Set when the engine cannot serve any more."""

    async def serve(self, job: ProfileJob) -> None:
        """Run one attempt to its end. Raises nothing but CancelledError."""
        writer = ReplyWriter(self._redis, job, ttl_s=self._limits.reply_ttl_s, max_bytes=self._limits.stream_max_bytes)
        with structlog.contextvars.bound_contextvars(
            job_id=job.id, attempt=job.attempt, model=job.model, worker=self._worker
        ):
            outcome = "cancelled"
            try:
                outcome = await self._attempt(job, writer)
            except (RedisError, OSError) as error:
                outcome = "redis_error"
                log.warning("reply_not_written", error=type(error).__name__)
            except ReplyGone:
                outcome = "reader_gone"
            finally:
                log.info("profile_job", outcome=outcome, clip=job.sha256)

    async def _attempt(self, job: ProfileJob, writer: ReplyWriter) -> str:
        if time.time() > job.deadline or not await writer.begin(Started(worker=self._worker)):
            return "unwanted"
        try:
            profile = await self._profiles.get(job.sha256)
        except (ClipGone, EngineError) as error:
            return await self._fail(writer, *self._refusal(error))
        except (RedisError, OSError):
            raise
        except Exception:
            log.exception("profile_failed")
            return await self._fail(writer, "internal_error", "no voice could be made of the clip")
        await writer.write(Profiled(kind=profile.kind))
        return "done"

    def _refusal(self, error: ClipGone | EngineError) -> tuple[str, str]:
        """Code and message for the client."""
        match error:
            case ClipGone():
                return "profile_unavailable", "the clip is not there any more"
            case EngineLost():
                return "engine_lost", "the process with the model was lost"
            case EngineBroken():
                log.error("engine_failed", exc_info=error)
                self.broken.set()
                return "engine_error", "the speech engine failed on this clip"
            case _:
                return "clip_unusable", str(error)

    async def _fail(self, writer: ReplyWriter, code: str, message: str) -> str:
        await writer.write(Failed(code=code, message=message))
        return code
