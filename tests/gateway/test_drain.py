"""A gateway that is stopped sends clients elsewhere first, then takes none, and lets replies end."""

import asyncio
import signal
import socket

import httpx
import pytest
import uvicorn

from cli.draining_server import DrainingServer
from gateway.app import build_app
from gateway.drain import ConnectionCloser, Drain
from tests.support.engines import ToneEngine
from tests.support.stack import running_stack
from tests.support.waiting import eventually


@pytest.fixture
def drain():
    return Drain()


@pytest.fixture
async def running(drain):
    """A server with a slow route; yields what starts it with a delay."""
    servers = []

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        if scope["path"] == "/slow":
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
            await asyncio.sleep(1)
        await send({"type": "http.response.body", "body": b"last"})

    async def start(delay_s: float) -> tuple[DrainingServer, httpx.AsyncClient]:
        sock = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            ConnectionCloser(app, drain), log_config=None, lifespan="off", timeout_graceful_shutdown=5
        )
        server = DrainingServer(config, drain, delay_s=delay_s)
        task = asyncio.create_task(server._serve([sock]))
        client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{sock.getsockname()[1]}", trust_env=False)
        servers.append((server, task, client, sock))
        await eventually(lambda: server.started)
        return server, client

    yield start
    for server, task, client, sock in servers:
        server.should_exit = True
        await asyncio.wait([task])
        task.result()
        await client.aclose()
        sock.close()


async def test_while_it_waits_it_serves_and_closes_each_connection(running, drain):
    server, client = await running(60.0)
    assert "connection" not in (await client.get("/")).headers
    server.handle_exit(signal.SIGTERM, None)
    assert drain.begun
    for _ in range(2):
        answer = await client.get("/")
        assert answer.status_code == 200
        assert answer.headers["connection"] == "close"


async def test_a_second_signal_skips_the_wait(running):
    server, client = await running(60.0)
    server.handle_exit(signal.SIGTERM, None)
    assert not server.should_exit
    server.handle_exit(signal.SIGTERM, None)
    await eventually(lambda: not server.servers or not server.servers[0].is_serving())
    with pytest.raises(httpx.ConnectError):
        await client.get("/")


@pytest.mark.parametrize("delay_s", [0.0, 0.3])
async def test_then_it_takes_none_and_lets_replies_end(running, drain, delay_s):
    server, client = await running(delay_s)
    async with client.stream("GET", "/slow") as answer:
        pieces = answer.aiter_raw()
        assert await anext(pieces) == b"first"
        server.handle_exit(signal.SIGTERM, None)
        assert drain.begun

        async def is_closed() -> bool:
            try:
                async with httpx.AsyncClient(trust_env=False) as other:
                    await other.get(client.base_url)
            except httpx.TransportError:
                return True
            return False

        await eventually(is_closed)
        assert await anext(pieces) == b"last"


async def test_a_gateway_on_its_way_out_is_not_ready(settings):
    async with running_stack(settings, ToneEngine()):
        drain = Drain()
        app = build_app(settings, version="test", drain=drain)
        config = uvicorn.Config(app, log_config=None, port=0)
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None
        task = asyncio.create_task(server._serve())
        await eventually(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            assert (await client.get("/ready")).status_code == 200
            drain.begun = True
            assert (await client.get("/ready")).status_code == 503
            assert (await client.get("/health")).status_code == 200
        server.should_exit = True
        await task
