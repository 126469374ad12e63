"""The two kinds of load. Both return every stream they began, after the last of them has ended.

Closed loop: so many clients, each with one request at a time and no pause between them. Open loop: requests
arrive by a Poisson process that does not care whether earlier ones have been answered, as real callers do.
"""

import asyncio
import time
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from typing import Protocol

from cli.bench.arrivals import poisson
from cli.bench.stream import Stream

CLIENT_LIMIT = "client_limit"
_PAUSE_AFTER_ERROR_S = 0.1


class Speak(Protocol):
    """Sends one request, due at that `time.perf_counter`, and follows it to its end."""

    def __call__(self, text: str, *, due: float) -> Awaitable[Stream]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """When no more requests are begun: the first bound counts, and one of them must be given."""

    duration_s: float | None = None
    count: int | None = None


async def closed_loop(speak: Speak, texts: Iterator[str], bounds: Bounds, *, concurrency: int) -> list[Stream]:
    """`concurrency` requests at all times."""
    streams: list[Stream] = []
    began, num_begun = time.perf_counter(), 0

    async def client() -> None:
        nonlocal num_begun
        while bounds.count is None or num_begun < bounds.count:
            now = time.perf_counter()
            if bounds.duration_s is not None and now - began >= bounds.duration_s:
                return
            num_begun += 1
            stream = await speak(next(texts), due=now)
            streams.append(stream)
            if stream.error:
                # A server that refuses at once is not to be hammered.
                await asyncio.sleep(_PAUSE_AFTER_ERROR_S)

    async with asyncio.TaskGroup() as clients:
        for _ in range(concurrency):
            clients.create_task(client())
    return streams


async def open_loop(
    speak: Speak, texts: Iterator[str], bounds: Bounds, *, rate_per_s: float, seed: int, max_in_flight: int
) -> list[Stream]:
    """`rate_per_s` requests on average.

    Arrivals beyond `max_in_flight` unanswered ones fail as CLIENT_LIMIT: to delay them would hide the overload.
    """
    streams: list[Stream] = []
    in_flight = 0

    async def client(text: str, due: float) -> None:
        nonlocal in_flight
        try:
            streams.append(await speak(text, due=due))
        finally:
            in_flight -= 1

    async with asyncio.TaskGroup() as clients:
        began = time.perf_counter()
        for at_s in poisson(rate_per_s, seed, duration_s=bounds.duration_s, count=bounds.count):
            due, text = began + at_s, next(texts)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if in_flight >= max_in_flight:
                streams.append(Stream(text=text, due=due, end=due, error=CLIENT_LIMIT))
            else:
                in_flight += 1
                clients.create_task(client(text, due))
    return streams
