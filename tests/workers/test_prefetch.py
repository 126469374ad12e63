"""Reading ahead of a consumer."""

import asyncio

from shared.errors import EngineError
from workers.prefetch import prefetch


async def test_a_source_that_fails_as_it_is_stopped_does_not_hold_its_consumer_up():
    """All places are taken by then: nobody will make room for the error."""

    async def source():
        try:
            for item in range(3):
                yield item
            full.set()
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise EngineError("could not be aborted") from None

    full = asyncio.Event()
    chunks = prefetch(source(), depth=2)
    assert await anext(chunks) == 0
    await full.wait()
    async with asyncio.timeout(2):
        await chunks.aclose()
