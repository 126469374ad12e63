"""Read ahead of a consumer, with a bound."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

T = TypeVar("T")


class _End:
    def __init__(self, error: Exception | None) -> None:
        self.error = error


async def prefetch(source: AsyncIterator[T], *, depth: int) -> AsyncGenerator[T, None]:
    """Yield what `source` yields, at most `depth` items ahead of the consumer; its error comes in its place.

    Closing this generator cancels the read in progress.
    """
    queue: asyncio.Queue[T | _End] = asyncio.Queue(maxsize=depth)

    async def read() -> None:
        try:
            async for item in source:
                await queue.put(item)
        except Exception as error:  # noqa: BLE001  # raised again at the consumer
            await queue.put(_End(error))
        else:
            await queue.put(_End(None))

    reader = asyncio.create_task(read())
    try:
        while not isinstance(item := await queue.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        reader.cancel()
        # A source that fails as it is stopped needs a place for its error, or its reader never ends.
        while not queue.empty():
            queue.get_nowait()
        await asyncio.wait([reader])
