"""The gateway's side of the queue: enqueue, look at and cancel attempts. One arq queue a model."""

from typing import Literal

import msgspec
from arq.connections import ArqRedis
from arq.constants import in_progress_key_prefix, job_key_prefix, retry_key_prefix
from arq.jobs import serialize_job
from arq.utils import timestamp_ms

from shared.broker import keys
from shared.contracts import Job, SpeechJob

SPEAK = "speak"
"""Name of the arq function that takes speech jobs."""

PROFILE = "profile"
"""Name of the arq function that takes profile jobs."""

WAKE = b"wake"
CANCEL_PREFIX = b"cancel:"

_CANCEL_MARK_TTL_S = 60

# A worker starts what its clock says is due. Scores in the past keep a worker whose clock is behind from
# leaving a job until its next poll; the order of jobs stays that of their enqueueing.
_CLOCK_SKEW_MS = 3_600_000

AttemptState = Literal["waiting", "claimed", "gone"]

_job_encoder = msgspec.msgpack.Encoder()


class JobQueue:
    """Hands attempts to the workers of a model."""

    def __init__(self, redis: ArqRedis) -> None:
        self._redis = redis

    async def enqueue(self, job: Job) -> None:
        """Queue an attempt and wake the model's workers. It expires unread at the job's deadline.

        What arq's `enqueue_job` writes, in one round trip instead of four: attempts have ids of their own,
        so that nothing needs to be looked for before.
        """
        attempt_id = keys.attempt(job.id, job.attempt)
        now_ms = timestamp_ms()
        function = SPEAK if isinstance(job, SpeechJob) else PROFILE
        payload = serialize_job(
            function, (_job_encoder.encode(job),), {}, None, now_ms, serializer=self._redis.job_serializer
        )
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.psetex(job_key_prefix + attempt_id, max(1000, int(1000 * job.deadline) - now_ms), payload)
            pipe.zadd(keys.queue(job.model), {attempt_id: now_ms - _CLOCK_SKEW_MS})
            # A lost message costs one poll interval of the worker, not the job.
            pipe.publish(keys.signals(job.model), WAKE)
            await pipe.execute()

    async def state(self, job: Job) -> AttemptState:
        """Whether an attempt still waits, was claimed by a worker, or has left the queue."""
        attempt_id = keys.attempt(job.id, job.attempt)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.zscore(keys.queue(job.model), attempt_id)
            pipe.exists(in_progress_key_prefix + attempt_id)
            score, claimed = await pipe.execute()
        if claimed:
            return "claimed"
        return "gone" if score is None else "waiting"

    async def cancel(self, job: Job) -> None:
        """Stop an attempt, queued or running; its reply stream is deleted.

        The mark is set before the message is sent: a worker that registers the attempt after the message
        sees the mark.
        """
        attempt_id = keys.attempt(job.id, job.attempt)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(keys.cancelled(attempt_id), b"", ex=_CANCEL_MARK_TTL_S)
            pipe.zrem(keys.queue(job.model), attempt_id)
            pipe.delete(job_key_prefix + attempt_id, retry_key_prefix + attempt_id, keys.reply(job.id, job.attempt))
            pipe.publish(keys.signals(job.model), CANCEL_PREFIX + attempt_id.encode())
            await pipe.execute()
