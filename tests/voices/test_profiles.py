"""Asking workers for profiles."""

import asyncio

from shared.broker.connection import connect
from shared.broker.heartbeat import Fleet
from shared.broker.queue import JobQueue
from tests.support.engines import engine_info
from voices.profile_cache import CLIP_TTL_S, ProfileCache
from voices.profiles import Profiles

_SHA256 = "0" * 64


class SlowQueue(JobQueue):
    """Its answer to an enqueueing never comes."""

    def __init__(self, redis) -> None:
        super().__init__(redis)
        self.enqueued = asyncio.Event()

    async def enqueue(self, job) -> None:
        await super().enqueue(job)
        self.enqueued.set()
        await asyncio.sleep(3600)


async def test_a_job_whose_enqueueing_is_cancelled_is_cancelled_too(settings):
    redis = connect(settings.redis.url, max_connections=8)
    queue = SlowQueue(redis)
    await redis.set(f"gepard:clip:{_SHA256}", b"", ex=CLIP_TTL_S)
    profiles = Profiles(settings, redis, queue, Fleet(redis), ProfileCache(redis), None)
    asking = asyncio.create_task(profiles.ensure(_SHA256, engine_info(can_match=True)))
    await queue.enqueued.wait()
    await profiles.close()
    await asyncio.wait([asking])
    assert not await redis.exists("gepard:queue:tone")
    assert not [name async for name in redis.scan_iter("arq:job:*")]
    await redis.aclose(close_connection_pool=True)
