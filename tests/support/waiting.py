"""Wait on a condition instead of sleeping."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any


async def eventually(condition: Callable[[], Any | Awaitable[Any]], *, within_s: float = 5.0) -> Any:
    """The first true value of `condition`, asked again and again; AssertionError when none comes in time."""
    deadline = time.monotonic() + within_s
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {within_s} s: {inspect.getsource(condition).strip()}"
        await asyncio.sleep(0.01)
