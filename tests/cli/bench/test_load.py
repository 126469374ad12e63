"""Closed and open loops, with a server that is a function."""

import asyncio
import itertools
import time

from cli.bench.load import CLIENT_LIMIT, Bounds, closed_loop, open_loop
from cli.bench.stream import Stream


class Server:
    """Answers each request after `takes_s`; remembers how many were open at once."""

    def __init__(self, takes_s=0.01, error=""):
        self.takes_s, self.error = takes_s, error
        self.texts, self.open, self.most_open = [], 0, 0

    async def speak(self, text, *, due):
        self.texts.append(text)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        await asyncio.sleep(self.takes_s)
        self.open -= 1
        return Stream(text=text, due=due, end=time.perf_counter(), error=self.error)


def texts():
    return (str(number) for number in itertools.count())


async def test_a_closed_loop_keeps_so_many_open_and_stops_at_its_count():
    server = Server()
    streams = await closed_loop(server.speak, texts(), Bounds(count=20), concurrency=4)
    assert len(streams) == 20
    assert server.most_open == 4
    assert server.texts == [str(number) for number in range(20)]


async def test_a_closed_loop_begins_nothing_after_its_duration_and_ends_what_it_began():
    server = Server(takes_s=0.15)
    began = time.perf_counter()
    streams = await closed_loop(server.speak, texts(), Bounds(duration_s=0.2), concurrency=3)
    assert len(streams) == 6
    assert all(stream.due - began < 0.2 for stream in streams)
    assert server.open == 0


async def test_a_server_that_refuses_is_not_hammered():
    server = Server(takes_s=0, error="http_503")
    await closed_loop(server.speak, texts(), Bounds(duration_s=0.35), concurrency=1)
    assert len(server.texts) <= 5


async def test_an_open_loop_does_not_wait_for_replies():
    server = Server(takes_s=0.3)
    began = time.perf_counter()
    streams = await open_loop(server.speak, texts(), Bounds(count=30), rate_per_s=200, seed=1, max_in_flight=100)
    assert len(streams) == 30
    assert server.most_open > 20
    assert time.perf_counter() - began < 2


async def test_latency_in_an_open_loop_counts_from_when_the_request_was_due():
    """A client that is late itself must not make the server look faster."""

    async def speak(text, *, due):
        time.sleep(0.05)  # noqa: ASYNC251  # holds the client up, as a busy one would be
        return Stream(text=text, due=due, end=time.perf_counter())

    streams = await open_loop(speak, texts(), Bounds(count=10), rate_per_s=1000, seed=1, max_in_flight=100)
    assert max(stream.end - stream.due for stream in streams) > 0.3


async def test_arrivals_beyond_the_limit_are_errors_and_never_delayed():
    server = Server(takes_s=1.0)
    streams = await open_loop(server.speak, texts(), Bounds(count=20), rate_per_s=500, seed=1, max_in_flight=5)
    assert server.most_open == 5
    assert [stream.error for stream in streams].count(CLIENT_LIMIT) == 15
