"""The tasks of running streams."""

import asyncio

from workers.streams import StreamSupervisor


async def test_a_second_cancel_does_not_break_into_the_clean_up_of_the_first():
    """A gateway that gives a job up says so when it loses the worker, and again when it closes the reply."""
    began, cleaning, cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work():
        try:
            began.set()
            await asyncio.sleep(3600)
        finally:
            cleaning.set()
            await asyncio.sleep(0.05)
            cleaned.set()

    streams = StreamSupervisor()
    streams.begin("a.1", work())
    await began.wait()
    assert streams.cancel("a.1")
    await cleaning.wait()
    assert streams.cancel("a.1")
    await streams.finished("a.1")
    assert cleaned.is_set()
