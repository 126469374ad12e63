"""One reply over all its attempts: what the client gets, whichever worker makes it.

A worker that is lost in the middle is replaced where the engine can resume: the next attempt makes the same
audio again and drops the packets the client already has.
"""

import asyncio
import time

import msgspec
from arq.connections import ArqRedis

from gateway.errors import ApiError
from gateway.limits import Permit
from gateway.speech_record import SpeechRecord
from shared.broker.events import ReplyReader
from shared.broker.heartbeat import INTERVAL_S, Fleet
from shared.broker.queue import JobQueue
from shared.contracts import HANDED_BACK, Audio, Done, Failed, ResumePoint, SpeechJob, Started, WorkerId
from shared.settings import LimitsSettings
from shared.telemetry import get_logger

# A silent read returns after this long, so that the watch over the worker runs at least so often.
_BLOCK_MS = 250

# A worker that gave a sign this lately may be too new for the gateway's picture of the fleet.
_RECENT_SIGN_S = 2 * INTERVAL_S

# An attempt that left the queue, or was claimed, without a sign of its worker for this long is lost: the
# hand-over takes milliseconds.
_HAND_OVER_S = 2.0

# Between two offers of a job that a worker of another edition may take again and again.
_REFUSED_PAUSE_S = 0.2

_LOST = "The worker that made this speech was lost; try again."

log = get_logger()


class Reply:
    """Reads the events of a job and keeps the job alive. Close it, however it ended."""

    def __init__(
        self,
        job: SpeechJob,
        redis: ArqRedis,
        queue: JobQueue,
        fleet: Fleet,
        limits: LimitsSettings,
        record: SpeechRecord,
        *,
        permit: Permit | None,
    ) -> None:
        """`permit`: the reply's share of the limits of the client's key, closed with it."""
        self._permit = permit
        self._job = job
        self.record = record
        self._redis = redis
        self._queue = queue
        self._fleet = fleet
        self._limits = limits
        self._reader = self._new_reader()
        self._queued_at = self._last_sign = time.monotonic()
        self._worker: WorkerId | None = None
        self._unclaimed_since: float | None = None
        self._unserved_since: float | None = None
        self._info = fleet.models().get(job.model)
        self._num_losses = 0
        self._packets = 0
        self._state = b""
        # Of the worker of this attempt, and of the one whose audio the client has.
        self._worker_edition = self._edition = ""
        self._is_takeover = False
        self.finished = False
        """`done` was read."""
        self.delivered = False
        """Audio has gone to the client: what it cost is not given back."""
        self._audio_s = 0.0
        self._queued = False
        self._closed = False

    @property
    def limit_headers(self) -> dict[str, str]:
        """What the client's key may still use."""
        return {} if self._permit is None else self._permit.headers

    async def enqueue(self, job: SpeechJob) -> None:
        """Queue the first attempt, now that the job has its voice."""
        self._job = job
        self._queued_at = self._last_sign = time.monotonic()
        self._queued = True
        self.record.queued()
        await self._queue.enqueue(self._job)

    async def read(self) -> list[Audio | Done]:
        """What came next; may be empty, at the latest after a quarter of a second of silence.

        Raises ApiError when the reply cannot be finished, ReplyGap when an event is missing.
        """
        arrived = await self._reader.read(_BLOCK_MS)
        if not arrived:
            await self._check()
            return []
        self._last_sign = time.monotonic()
        events: list[Audio | Done] = []
        for event in arrived:
            match event:
                case Started():
                    self._worker, self._worker_edition = event.worker, event.edition
                    self.record.started()
                case Audio():
                    self._note_takeover()
                    self._packets += event.packets
                    self._state += event.resume
                    self._edition = self._worker_edition
                    self.record.came(event)
                    events.append(event)
                case Done(usage=usage):
                    self._note_takeover()
                    self.finished = True
                    self.record.came(event)
                    self._audio_s = usage.output_tokens * self._info.frame_s if self._info else 0.0
                    events.append(event)
                case Failed(code=code, message=message):
                    if code not in HANDED_BACK:
                        raise ApiError(code, message)
                    if code == "other_edition":
                        await self._offer_again()
                    else:
                        await self._next_attempt(code)
                    return events
        return events

    async def touch(self) -> None:
        """Keep unread audio from expiring while the client takes nothing."""
        await self._reader.touch()

    async def close(self) -> None:
        """Leave nothing behind: delete a finished reply, cancel any other; then free the key's stream.

        Closing again does nothing.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self.finished:
                await self._reader.delete()
            elif self._queued:
                await self._queue.cancel(self._job)
        finally:
            if self._permit is not None:
                await self._permit.close(delivered=self.delivered, audio_s=self._audio_s)

    def _new_reader(self) -> ReplyReader:
        return ReplyReader(self._redis, self._job, ttl_s=self._limits.reply_ttl_s)

    def _note_takeover(self) -> None:
        """Count a worker that has gone on where another one was lost, once."""
        if self._is_takeover:
            self._is_takeover = False
            self.record.resumed()

    async def _check(self) -> None:
        """Called in silence: is somebody still working on it?"""
        now = time.monotonic()
        if self._worker is not None:
            if now - self._last_sign > _RECENT_SIGN_S and not self._fleet.is_alive(self._worker):
                await self._next_attempt("worker_lost")
            return
        self._check_wait(now)
        if await self._queue.state(self._job) == "waiting":
            self._unclaimed_since = None
        elif self._unclaimed_since is None:
            self._unclaimed_since = now
        elif now - self._unclaimed_since > _HAND_OVER_S:
            await self._next_attempt("worker_lost")

    def _check_wait(self, now: float) -> None:
        """Raises ApiError when the attempt has waited long enough for a worker."""
        if now - self._queued_at > self._limits.first_event_timeout_s:
            raise ApiError("server_overloaded", "No worker could take the request in time; try again later.")
        if self._num_losses == 0 or self._fleet.can_serve(self._job.model, self._edition):
            self._unserved_since = None
        elif self._unserved_since is None:
            self._unserved_since = now
        elif now - self._unserved_since > self._limits.resume_wait_s:
            raise ApiError("worker_lost", _LOST)

    async def _next_attempt(self, reason: str) -> None:
        """Give the job to another worker, or raise if that cannot be done."""
        job = self._job
        self._info = self._fleet.models().get(job.model, self._info)
        resumable = self._packets == 0 or (self._info is not None and self._info.can_resume)
        log.warning("attempt_lost", job_id=job.id, attempt=job.attempt, worker=self._worker, reason=reason)
        self._num_losses += 1
        self.record.lost(reason)
        await self._queue.cancel(job)
        if self._num_losses >= self._limits.max_attempts or not resumable:
            raise ApiError("worker_lost", _LOST)
        # This attempt, too, waits its time and no longer: the other workers may be full, or gone.
        self._queued_at = time.monotonic()
        await self._enqueue_again()

    async def _offer_again(self) -> None:
        """A worker of another edition took the job and gave it back: it waits on for the right one."""
        await asyncio.sleep(_REFUSED_PAUSE_S)
        self._check_wait(time.monotonic())
        await self._queue.cancel(self._job)
        await self._enqueue_again()

    async def _enqueue_again(self) -> None:
        job = self._job
        resume = ResumePoint(packets=self._packets, state=self._state, edition=self._edition) if self._packets else None
        self._job = msgspec.structs.replace(job, attempt=job.attempt + 1, resume=resume)
        self._is_takeover = resume is not None
        self._reader = self._new_reader()
        self._worker = None
        self._unclaimed_since = None
        self.record.queued()
        await self._queue.enqueue(self._job)
