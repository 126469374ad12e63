"""Reply streams: order, gaps, bounds, life."""

import time

import pytest

from shared.broker import keys
from shared.broker.connection import connect
from shared.broker.events import ClientTooSlow, ReplyGone, ReplyReader, ReplyWriter
from shared.broker.queue import JobQueue
from shared.contracts import Audio, Done, Started, Timings, Usage, WorkerId
from shared.errors import ReplyGap
from tests.support.jobs import speech_job

STARTED = Started(worker=WorkerId("w"))
DONE = Done(
    usage=Usage(input_tokens=1, output_tokens=2),
    timings=Timings(engine_first_ms=1.0, first_audio_ms=2.0, total_ms=3.0),
)


def audio(seq: int, size: int = 10) -> Audio:
    return Audio(seq=seq, packets=1, data=bytes(size))


@pytest.fixture
async def redis(redis_url):
    client = connect(redis_url, max_connections=16)
    yield client
    await client.aclose(close_connection_pool=True)


@pytest.fixture
def job():
    return speech_job("job")


@pytest.fixture
def writer(redis, job):
    return ReplyWriter(redis, job, ttl_s=30, max_bytes=1200)


@pytest.fixture
def reader(redis, job):
    return ReplyReader(redis, job, ttl_s=30)


async def test_events_arrive_in_order_and_whole(writer, reader):
    events = [audio(0), audio(1), DONE]
    assert await writer.begin(STARTED)
    for event in events:
        await writer.write(event)
    assert await reader.read(100) == [STARTED, *events]


async def test_a_cancelled_attempt_does_not_begin_and_leaves_nothing(redis, job, writer, reader):
    await JobQueue(redis).cancel(job)
    assert not await writer.begin(STARTED)
    assert await reader.read(10) == []
    assert not await redis.exists(keys.reply(job.id, job.attempt))


async def test_a_reader_that_came_first_is_woken_by_the_first_event(writer, reader):
    assert await reader.read(10) == []
    await writer.begin(STARTED)
    assert await reader.read(1000) == [STARTED]


async def test_a_missing_audio_event_is_an_error(writer, reader):
    await writer.begin(STARTED)
    await writer.write(audio(0))
    await writer.write(audio(2))
    with pytest.raises(ReplyGap, match="expected audio event 1, got 2"):
        await reader.read(100)


async def test_the_first_event_gives_the_key_a_life_and_later_ones_renew_it(redis, job, writer, monkeypatch):
    key = keys.reply(job.id, job.attempt)
    await writer.begin(STARTED)
    assert 25 <= await redis.ttl(key) <= 30
    await redis.expire(key, 5)
    await writer.write(audio(0))
    assert await redis.ttl(key) <= 5, "renewed although a quarter of its life has not passed"
    now = time.monotonic()
    monkeypatch.setattr("shared.broker.events.time.monotonic", lambda: now + 8)
    await writer.write(audio(1))
    assert 25 <= await redis.ttl(key) <= 30


async def test_both_sides_can_keep_a_silent_reply_alive(redis, job, writer, reader):
    key = keys.reply(job.id, job.attempt)
    await writer.begin(STARTED)
    for side in (writer, reader):
        await redis.expire(key, 5)
        await side.touch()
        assert 25 <= await redis.ttl(key) <= 30


async def test_a_writer_stops_when_the_reader_deleted_the_reply_and_does_not_bring_it_back(redis, job, writer, reader):
    await writer.begin(STARTED)
    await reader.delete()
    with pytest.raises(ReplyGone):
        await writer.write(audio(0))
    assert not await redis.exists(keys.reply(job.id, job.attempt))


async def test_unread_audio_beyond_the_bound_is_the_clients_fault_and_nothing_is_trimmed(writer, reader):
    await writer.begin(STARTED)
    for seq in range(3):
        await writer.write(audio(seq, 300))
    with pytest.raises(ClientTooSlow):
        await writer.write(audio(3, 300))
    assert [len(event.data) for event in (await reader.read(100))[1:]] == [300, 300, 300, 300]


async def test_audio_that_was_read_does_not_count_against_the_bound(writer, reader):
    await writer.begin(STARTED)
    for seq in range(20):
        await writer.write(audio(seq, 300))
        await reader.read(100)


async def test_an_older_attempt_cannot_write_into_a_newer_ones_reply(redis, job, writer):
    newer = ReplyReader(redis, speech_job("job", attempt=2), ttl_s=30)
    await writer.begin(STARTED)
    assert await newer.read(50) == []
