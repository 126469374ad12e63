"""The gateway's picture of the workers."""

import asyncio
import time

from shared.broker import keys
from shared.broker.connection import connect
from shared.broker.heartbeat import Fleet, beat
from shared.contracts import Heartbeat, WorkerId, WorkerTotals
from tests.support.engines import engine_info
from tests.support.waiting import eventually


def heartbeat(name: str) -> Heartbeat:
    return Heartbeat(
        worker=WorkerId(name), info=engine_info(), active=0, capacity=1, accepting=True, totals=WorkerTotals()
    )


async def test_a_worker_of_another_release_does_not_end_the_watch_over_the_others(redis_url):
    redis = connect(redis_url, max_connections=4)
    await redis.set(keys.heartbeat(WorkerId("other")), b"\x80", ex=60)
    await redis.zadd(keys.WORKERS, {"other": time.time()})
    fleet = Fleet(redis)
    watching = asyncio.create_task(fleet.watch())
    await beat(redis, heartbeat("ours"))
    await eventually(lambda: watching.done() or fleet.is_alive(WorkerId("ours")))
    assert not watching.done()
    assert not fleet.is_alive(WorkerId("other"))
    watching.cancel()
    await asyncio.wait([watching])
    await redis.aclose(close_connection_pool=True)
