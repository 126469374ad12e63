"""A client that hangs up: the worker stops within one chunk, and nothing stays in Redis."""

import asyncio
import json
import struct

import pytest
from redis.asyncio import Redis

from tests.support.engines import ToneEngine, engine_info
from tests.support.stack import running_stack
from tests.support.waiting import eventually

TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"


class Gate:
    """A step that waits until it is opened, and says that it waits."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, request, index):
        self.reached.set()
        await self.open.wait()


async def send_request(stack, **changes):
    """A raw connection on which a speech request was sent."""
    body = json.dumps({"model": "tts-1", "input": TEXT, "voice": "low", "response_format": "pcm", **changes})
    reader, writer = await asyncio.open_connection("127.0.0.1", int(stack.url.rsplit(":", 1)[1]))
    head = f"POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body.encode())
    await writer.drain()
    return reader, writer


def reset(writer) -> None:
    """Close with RST, as a killed client does."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER, zero seconds
    writer.transport.abort()


CLOSINGS = {"fin": lambda writer: writer.close(), "reset": reset}


async def only_expiring_keys(stack) -> bool:
    """Nothing is left but marks that expire within their minute."""
    names = await stack.keys()
    return all([0 < await stack.redis.ttl(name) <= 60 for name in names]) and not any(
        name.startswith(("gepard:reply:", "arq:", "gepard:queue:")) for name in names
    )


@pytest.mark.parametrize("close", CLOSINGS.values(), ids=CLOSINGS.keys())
async def test_before_the_first_byte_of_a_running_job(settings, close):
    gate = Gate()
    engine = ToneEngine(step=gate)
    async with running_stack(settings, engine) as stack:
        _, writer = await send_request(stack)
        await gate.reached.wait()
        close(writer)
        await eventually(lambda: engine.running == 0)
        assert engine.steps == 1
        await eventually(lambda: only_expiring_keys(stack))


@pytest.mark.parametrize("close", CLOSINGS.values(), ids=CLOSINGS.keys())
async def test_while_the_job_is_queued(settings, close):
    gate = Gate()
    engine = ToneEngine(engine_info(capacity=1), step=gate)
    async with running_stack(settings, engine) as stack:
        _, first = await send_request(stack)
        await gate.reached.wait()
        _, second = await send_request(stack)
        await eventually(lambda: stack.redis.zcard("gepard:queue:tone"))
        close(second)
        await eventually(lambda: _queue_is_empty(stack))
        close(first)
        gate.open.set()
        await eventually(lambda: only_expiring_keys(stack))
        assert len(engine.requests) == 1


async def _queue_is_empty(stack) -> bool:
    return await stack.redis.zcard("gepard:queue:tone") == 0


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
@pytest.mark.parametrize("close", CLOSINGS.values(), ids=CLOSINGS.keys())
async def test_after_the_first_byte(settings, close, stream_format):
    engine = ToneEngine(step=lambda request, index: asyncio.sleep(0.02))
    async with running_stack(settings, engine) as stack:
        reader, writer = await send_request(stack, stream_format=stream_format)
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(100)
        close(writer)
        await eventually(lambda: engine.running == 0, within_s=2)
        assert engine.steps < len(TEXT) / 2
        await eventually(lambda: only_expiring_keys(stack))


async def test_during_the_simple_route(settings):
    gate = Gate()
    engine = ToneEngine(step=gate)
    async with running_stack(settings, engine) as stack:
        body = json.dumps({"text": "hello"})
        _, writer = await asyncio.open_connection("127.0.0.1", int(stack.url.rsplit(":", 1)[1]))
        writer.write(
            f"POST /synthesize HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
        )
        await gate.reached.wait()
        writer.close()
        await eventually(lambda: engine.running == 0)
        await eventually(lambda: only_expiring_keys(stack))


async def test_with_half_a_request_body(settings):
    engine = ToneEngine()
    async with running_stack(settings, engine) as stack, stack.client() as client:
        _, writer = await asyncio.open_connection("127.0.0.1", int(stack.url.rsplit(":", 1)[1]))
        writer.write(b'POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\ncontent-length: 500\r\n\r\n{"input":')
        await writer.drain()
        writer.close()
        good = await client.post("/v1/audio/speech", json={"model": "tts-1", "input": "a", "voice": "low"})
        assert good.status_code == 200
        assert len(engine.requests) == 1


async def test_a_hundred_hang_ups_leave_the_gateway_as_it_was(settings):
    engine = ToneEngine(step=lambda request, index: asyncio.sleep(0.005))
    async with running_stack(settings, engine) as stack, stack.client() as client:
        tasks_before = len(asyncio.all_tasks())
        for index in range(100):
            reader, writer = await send_request(stack)
            if index % 2:
                await reader.readuntil(b"\r\n\r\n")
            writer.close()
        await eventually(lambda: engine.running == 0)
        await eventually(lambda: only_expiring_keys(stack))
        good = await client.post("/v1/audio/speech", json={"model": "tts-1", "input": "ab", "voice": "low"})
        assert good.status_code == 200
        await eventually(lambda: len(asyncio.all_tasks()) <= tasks_before + 3)


async def test_redis_connections_do_not_grow_with_hang_ups(settings):
    engine = ToneEngine(step=lambda request, index: asyncio.sleep(0.005))
    async with running_stack(settings, engine) as stack, Redis.from_url(settings.redis.url) as redis:
        for _ in range(30):
            reader, writer = await send_request(stack)
            await reader.readuntil(b"\r\n\r\n")
            writer.close()
        await eventually(lambda: engine.running == 0)
        assert (await redis.info("clients"))["connected_clients"] < 60
