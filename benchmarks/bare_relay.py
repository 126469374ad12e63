"""The least that carries audio from a worker process through Redis to an HTTP client.

`app`: on a request PUBLISH a wake, XREAD one event, send it. `worker`: on the wake XADD one event of the size
of a first audio event. No queue, no checks, no text, no encoder: what the gateway adds is measured against it.
Arguments: `app` or `worker`, Redis URL; prints `ready`, or the port it listens on.
"""

import secrets
import socket
import sys
from collections.abc import Callable, Coroutine

import uvicorn
import uvloop
from redis.asyncio import Redis
from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope

EVENT_BYTES = 4800
"""100 ms of pcm at 24 kHz."""

_CHANNEL = "bench:wake"


def build_app(redis: Redis) -> ASGI3Application:
    """Answers every request with one event."""

    async def app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        assert scope["type"] == "http"
        message = await receive()
        while message["type"] == "http.request" and message["more_body"]:
            message = await receive()
        key = f"bench:{secrets.token_hex(12)}"
        await redis.publish(_CHANNEL, key)
        streams = await redis.xread({key: b"0-0"}, block=10_000)
        data: bytes = streams[0][1][0][1][b"e"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"audio/pcm")]})
        await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        await redis.delete(key)

    return app


async def serve(redis: Redis) -> None:
    """Serve HTTP until SIGTERM."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        config = uvicorn.Config(build_app(redis), log_config=None, access_log=False, lifespan="off")
        print(sock.getsockname()[1], flush=True)
        await uvicorn.Server(config).serve([sock])


async def work(redis: Redis) -> None:
    """Write an event for each wake."""
    payload = secrets.token_bytes(EVENT_BYTES)
    async with redis.pubsub(ignore_subscribe_messages=True) as wakes:
        await wakes.subscribe(_CHANNEL)
        print("ready", flush=True)
        async for message in wakes.listen():
            await redis.xadd(message["data"], {b"e": payload})


async def main(role: Callable[[Redis], Coroutine[None, None, None]], url: str) -> None:
    """Run one of the two."""
    async with Redis.from_url(url) as redis:
        await role(redis)


if __name__ == "__main__":
    uvloop.run(main({"app": serve, "worker": work}[sys.argv[1]], sys.argv[2]))
