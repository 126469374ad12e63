"""The worker process: arq hands a job over within milliseconds, the stream supervisor holds it.

arq keeps jobs that run in its sorted set and looks at each of them on every poll, so the arq function returns
as soon as the stream is registered. Its slot stays taken until the stream has ended: a full worker picks
nothing, and a free one finds the waiting jobs. A pub/sub message wakes the worker; polling is the safety net.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from arq.connections import ArqRedis
from arq.worker import Worker, func
from redis.exceptions import RedisError

from shared.broker import heartbeat, keys
from shared.broker.connection import connect, warm
from shared.broker.queue import CANCEL_PREFIX, PROFILE, SPEAK
from shared.contracts import Heartbeat, ProfileJob, SpeechJob, WorkerId
from shared.errors import EngineBroken
from shared.settings import Settings
from shared.telemetry import get_logger
from voices.profile_cache import ProfileCache
from workers.engines.base import Engine
from workers.profile_job import ProfileService, ProfileSource
from workers.streams import StreamSupervisor
from workers.synthesis import SpeechService

# The function only hands over. arq adds 10 s to this before another worker may take a job whose worker died
# in that very moment.
_HAND_OVER_TIMEOUT_S = 5
_RETRY_S = 0.5
_AWAY_S = 0.05
_TOUCH_EVERY_BEATS = 25
_ENGINE_STOP_S = 10.0

_speech_decoder = msgspec.msgpack.Decoder(SpeechJob)
_profile_decoder = msgspec.msgpack.Decoder(ProfileJob)
log = get_logger()


@dataclass(frozen=True, slots=True)
class Services:
    """What serves the jobs of a worker."""

    speech: SpeechService
    profiles: ProfileService

    @property
    def broken(self) -> tuple[asyncio.Event, ...]:
        """Set when the engine cannot serve any more."""
        return self.speech.broken, self.profiles.broken


class HandOverWorker(Worker):
    """arq's worker, woken instead of polling, holding a slot for as long as the stream lives.

    Overrides the private `_release_sem_dec_counter_on_complete` and calls the private `_poll_iteration`:
    arq is pinned exactly.
    """

    def __init__(
        self,
        redis: ArqRedis,
        streams: StreamSupervisor,
        services: Services,
        *,
        engine: Engine,
        capacity: int,
        poll_delay_s: float,
    ) -> None:
        self._wake = asyncio.Event()
        self._streams = streams
        self._services = services
        self._engine = engine
        super().__init__(
            functions=[
                func(self._speak, name=SPEAK, max_tries=1, keep_result=0),
                func(self._profile, name=PROFILE, max_tries=1, keep_result=0),
            ],
            queue_name=keys.queue(engine.info.model),
            redis_pool=redis,
            job_serializer=redis.job_serializer,
            job_deserializer=redis.job_deserializer,
            max_jobs=capacity,
            job_timeout=_HAND_OVER_TIMEOUT_S,
            poll_delay=poll_delay_s,
            # Jobs that arq gives up before it calls a function would lie in Redis for an hour, with their text.
            keep_result=0,
            handle_signals=False,
        )

    def wake(self) -> None:
        """Look at the queue now."""
        self._wake.set()

    def running(self) -> set[asyncio.Task[None]]:
        """Jobs being handed over and jobs whose streams have not ended."""
        return {task for task in self.tasks.values() if not task.done()}

    async def main(self) -> None:
        """Pick jobs until cancelled; a lost connection to Redis is waited out, and a model that is away.

        Raises EngineBroken when the model does not come back.
        """
        while True:
            if not self._engine.is_available:
                await asyncio.sleep(_AWAY_S)
                continue
            self._wake.clear()
            try:
                await self._poll_iteration()
            except (RedisError, OSError) as error:
                log.warning("queue_poll_failed", error=type(error).__name__)
                await asyncio.sleep(_RETRY_S)
                continue
            # Not wait_for: before Python 3.12 it loses a cancel that comes together with the wake.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.poll_delay_s):
                    await self._wake.wait()

    async def run_job(self, job_id: str, score: int) -> None:
        """Run arq's own part, then keep the slot until the stream has ended."""
        try:
            await super().run_job(job_id, score)
        except (RedisError, OSError) as error:
            log.warning("hand_over_failed", job_id=job_id, error=type(error).__name__)
        await self._streams.finished(job_id)

    async def heart_beat(self) -> None:
        """Write no health-check key: shared/broker/heartbeat.py says more, and sooner."""

    def _release_sem_dec_counter_on_complete(self) -> None:
        super()._release_sem_dec_counter_on_complete()
        self._wake.set()

    async def _speak(self, ctx: dict[str, Any], payload: bytes) -> None:
        self._streams.begin(ctx["job_id"], self._services.speech.serve(_speech_decoder.decode(payload)))

    async def _profile(self, ctx: dict[str, Any], payload: bytes) -> None:
        self._streams.begin(ctx["job_id"], self._services.profiles.serve(_profile_decoder.decode(payload)))


async def run_worker(engine: Engine, settings: Settings, *, stop: asyncio.Event) -> None:
    """Serve jobs of the engine's model until `stop` is set, then drain.

    Returns after the last stream has ended and everything is closed. Raises EngineBroken when the engine
    cannot serve any more (the process must end), RedisError when Redis cannot be reached at the start.
    """
    redis = connect(settings.redis.url, max_connections=settings.redis.max_connections)
    worker_id = heartbeat.new_worker_id()
    service: SpeechService | None = None
    try:
        if not await _started(engine, stop):
            return
        await warm(redis, settings.redis.warm_connections)
        profiles = ProfileSource(engine, ProfileCache(redis))
        service = SpeechService(redis, engine, profiles, worker_id, settings.limits)
        services = Services(service, ProfileService(redis, profiles, worker_id, settings.limits))
        await _serve(engine, settings, redis, services, worker_id, stop)
    finally:
        if service is not None:
            service.close()
        await _stop(engine)
        await redis.aclose(close_connection_pool=True)


async def _started(engine: Engine, stop: asyncio.Event) -> bool:
    """Start the engine, which may take minutes; False if it was to stop before."""
    starting = asyncio.create_task(engine.start())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        return starting.done()
    finally:
        for task in (starting, stopping):
            task.cancel()
        await asyncio.wait([starting, stopping])


async def _stop(engine: Engine) -> None:
    """Stop the engine; one that hangs is left to the end of the process."""
    try:
        async with asyncio.timeout(_ENGINE_STOP_S):
            await engine.stop()
    except TimeoutError:
        log.error("engine_not_stopped", after_s=_ENGINE_STOP_S)  # noqa: TRY400  # its trace says nothing of the hang


async def _serve(
    engine: Engine,
    settings: Settings,
    redis: ArqRedis,
    services: Services,
    worker_id: WorkerId,
    stop: asyncio.Event,
) -> None:
    info = engine.info
    capacity = settings.worker.capacity or info.capacity
    streams = StreamSupervisor()
    worker = HandOverWorker(
        redis, streams, services, engine=engine, capacity=capacity, poll_delay_s=settings.worker.poll_delay_s
    )

    def report() -> Heartbeat:
        return Heartbeat(
            worker=worker_id,
            info=info,
            active=streams.active,
            capacity=capacity,
            accepting=worker.allow_pick_jobs and engine.is_available,
            totals=services.speech.totals.read(),
            host=engine.host,
        )

    background = [
        asyncio.create_task(_beat(redis, report, services.speech)),
        asyncio.create_task(worker.main()),
        asyncio.create_task(_listen(redis, info.model, worker, streams)),
    ]
    ending: list[asyncio.Task[Any]] = [
        asyncio.create_task(stop.wait()),
        *(asyncio.create_task(broken.wait()) for broken in services.broken),
    ]
    try:
        log.info("worker_ready", worker=worker_id, model=info.model, capacity=capacity)
        await asyncio.wait([*background, *ending], return_when=asyncio.FIRST_COMPLETED)
        # Pick nothing new, and let the running streams end while the heartbeat still says we live.
        worker.allow_pick_jobs = False
        running = worker.running()
        if running and not _is_broken(services):
            await asyncio.wait(running, timeout=settings.worker.drain_s)
        services.speech.stopping = True
        await _end_streams(worker, streams)
        for task in background:
            if task.done():
                task.result()
        if _is_broken(services):
            raise EngineBroken("the engine cannot serve any more")
    finally:
        for task in (*background, *ending):
            task.cancel()
        await asyncio.wait([*background, *ending])
        await _end_streams(worker, streams)
        await _say_goodbye(redis, worker_id)
        log.info("worker_stopped", worker=worker_id)


def _is_broken(services: Services) -> bool:
    return any(broken.is_set() for broken in services.broken)


async def _end_streams(worker: HandOverWorker, streams: StreamSupervisor) -> None:
    """Stop what runs, and jobs still being handed over: their streams begin after the first round."""
    while running := worker.running():
        streams.cancel_all()
        await asyncio.wait(running, timeout=0.1)


async def _beat(redis: ArqRedis, report: Callable[[], Heartbeat], service: SpeechService) -> None:
    for count in itertools.count():
        try:
            await heartbeat.beat(redis, report())
            if count % _TOUCH_EVERY_BEATS == 0:
                await service.touch()
        except (RedisError, OSError) as error:
            log.warning("heartbeat_failed", error=type(error).__name__)
        await asyncio.sleep(heartbeat.INTERVAL_S)


async def _say_goodbye(redis: ArqRedis, worker_id: WorkerId) -> None:
    try:
        await heartbeat.clear(redis, worker_id)
    except (RedisError, OSError) as error:
        log.warning("heartbeat_not_cleared", error=type(error).__name__)


async def _listen(redis: ArqRedis, model: str, worker: HandOverWorker, streams: StreamSupervisor) -> None:
    """Obey the signals of the gateways until cancelled.

    What is missed while the connection is down costs little: jobs are found by polling, and a cancelled
    stream ends at its next write, whose reply is gone.
    """
    while True:
        try:
            async with redis.pubsub(ignore_subscribe_messages=True) as signals:
                await signals.subscribe(keys.signals(model))
                worker.wake()
                async for message in signals.listen():
                    data: bytes = message["data"]
                    if data.startswith(CANCEL_PREFIX):
                        streams.cancel(data.removeprefix(CANCEL_PREFIX).decode())
                    else:
                        worker.wake()
        except (RedisError, OSError) as error:
            log.warning("signals_lost", error=type(error).__name__)
        await asyncio.sleep(_RETRY_S)
