"""The gateway's side of the queue."""

import pytest

from shared.broker import keys
from shared.broker.connection import connect
from shared.broker.queue import JobQueue
from tests.support.jobs import speech_job


@pytest.fixture
async def redis(redis_url):
    client = connect(redis_url, max_connections=16)
    yield client
    await client.aclose(close_connection_pool=True)


async def names(redis) -> set[bytes]:
    return {key async for key in redis.scan_iter()}


async def test_a_queued_attempt_waits_and_a_cancelled_one_leaves_only_a_mark_that_expires(redis):
    queue, job = JobQueue(redis), speech_job("a")
    await queue.enqueue(job)
    assert await queue.state(job) == "waiting"
    await queue.cancel(job)
    assert await queue.state(job) == "gone"
    mark = keys.cancelled("a.1").encode()
    assert await names(redis) == {mark}
    assert 0 < await redis.ttl(mark) <= 60


async def test_nothing_on_the_wire_is_a_pickle(redis):
    await JobQueue(redis).enqueue(speech_job("a"))
    payload = await redis.get("arq:job:a.1")
    assert not payload.startswith(b"\x80\x04")
    assert b"abc" in payload


async def test_a_job_is_due_even_for_a_worker_whose_clock_is_behind(redis):
    await JobQueue(redis).enqueue(speech_job("a"))
    score = await redis.zscore(keys.queue("tone"), "a.1")
    seconds, _ = await redis.time()
    assert score / 1000 < seconds - 60


async def test_jobs_keep_the_order_in_which_they_came(redis):
    queue = JobQueue(redis)
    for name in "abc":
        await queue.enqueue(speech_job(name))
        # arq's scores are milliseconds.
        while int((await redis.zrange(keys.queue("tone"), -1, -1, withscores=True))[0][1]) >= await _now_ms(redis):
            pass
    assert await redis.zrange(keys.queue("tone"), 0, -1) == [b"a.1", b"b.1", b"c.1"]


async def _now_ms(redis) -> int:
    seconds, microseconds = await redis.time()
    return (seconds - 3600) * 1000 + microseconds // 1000


async def test_a_job_expires_unread_at_its_deadline(redis):
    await JobQueue(redis).enqueue(speech_job("a"))
    assert 50 < await redis.ttl("arq:job:a.1") <= 60
