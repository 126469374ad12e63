"""The body of a speech reply: audio bytes as they come, or the same bytes as server-sent events.

An ASGI application, returned by the handler after the first audio event has arrived. It ends the body only
on `done`; a failure after the first byte cuts the connection (bytes) or sends an error event (SSE).
"""

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Protocol, TypeVar

import msgspec
from litestar.types import Receive, Scope, Send
from redis.exceptions import RedisError

from gateway.errors import ApiError
from gateway.reply import Reply
from gateway.speech_record import CLIENT_GONE, DONE
from shared.contracts import Audio, Done
from shared.errors import ReplyGap
from shared.telemetry import get_logger

_SSE_KEEPALIVE_S = 15.0

T = TypeVar("T")
log = get_logger()


class ClientGone(Exception):
    """The client hung up."""


class Framing(Protocol):
    """How events become body bytes. `error` None: the connection is cut instead."""

    @property
    def content_type(self) -> str: ...
    @property
    def keepalive(self) -> bytes | None: ...
    def audio(self, event: Audio) -> bytes: ...
    def done(self, event: Done) -> bytes: ...
    def error(self, error: ApiError) -> bytes | None: ...


class BytesFraming:
    """The encoded file itself."""

    keepalive = None

    def __init__(self, content_type: str) -> None:
        self.content_type = content_type

    def audio(self, event: Audio) -> bytes:
        return event.data

    def done(self, event: Done) -> bytes:  # noqa: ARG002  # usage has no place in a file
        return b""

    def error(self, error: ApiError) -> bytes | None:  # noqa: ARG002
        return None


class _Delta(msgspec.Struct, frozen=True, tag_field="type", tag="speech.audio.delta"):
    audio: str


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: int
    output_tokens: int
    total_tokens: int


class _DoneEvent(msgspec.Struct, frozen=True, tag_field="type", tag="speech.audio.done"):
    usage: _Usage


class SseFraming:
    """OpenAI's speech events: slices of one continuous file, then the usage. Lines end in a bare newline."""

    content_type = "text/event-stream; charset=utf-8"
    keepalive = b": keepalive\n\n"

    def audio(self, event: Audio) -> bytes:
        return self._event(_Delta(audio=base64.b64encode(event.data).decode()))

    def done(self, event: Done) -> bytes:
        read, made = event.usage.input_tokens, event.usage.output_tokens
        return self._event(_DoneEvent(usage=_Usage(read, made, read + made)))

    def error(self, error: ApiError) -> bytes | None:
        return self._event(error.answer())

    def _event(self, payload: msgspec.Struct) -> bytes:
        return b"data: " + msgspec.json.encode(payload) + b"\n\n"


async def until_hang_up(work: Awaitable[T], receive: Receive) -> T:
    """The result of `work`, unless the client hangs up first: then it is cancelled and ClientGone raised.

    The request body must have been read: from then on `receive` only returns at the hang-up.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_hang_up(receive))
    try:
        await asyncio.wait([working, watching], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientGone
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.wait([working, watching])


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class SpeechResponse:
    """Relays a reply whose first events have been read already."""

    def __init__(
        self,
        reply: Reply,
        first: list[Audio | Done],
        framing: Framing,
        headers: Mapping[str, str],
        *,
        stall_timeout_s: float,
        touch_every_s: float,
    ) -> None:
        self._reply = reply
        self._first = first
        self._framing = framing
        self._headers = headers
        self._stall_timeout_s = stall_timeout_s
        self._touch_every_s = touch_every_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it all. Returning without an end of the body makes the server cut the connection."""
        outcome = "interrupted"
        touching = asyncio.create_task(self._keep_alive())
        try:
            await until_hang_up(self._relay(send), receive)
            outcome = DONE
        except ClientGone:
            outcome = CLIENT_GONE
        except TimeoutError:
            outcome = "client_stalled"
        except ApiError as error:
            outcome = error.code
            await self._send_error(send, error)
        except ReplyGap:
            outcome = "reply_gap"
            await self._send_error(send, ApiError("internal_error", "A part of the reply was lost."))
        except (RedisError, OSError):
            outcome = "broker_unavailable"
            await self._send_error(send, ApiError("broker_unavailable", "The message broker was lost."))
        finally:
            touching.cancel()
            scope["state"]["outcome"] = outcome
            self._reply.record.end(outcome)
            await asyncio.shield(close_quietly(self._reply))

    async def _relay(self, send: Send) -> None:
        headers = [(name.encode(), value.encode()) for name, value in self._headers.items()]
        headers.append((b"content-type", self._framing.content_type.encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self._reply.delivered = True
        async for body, audio in self._bodies():
            offered = time.perf_counter()
            async with asyncio.timeout(self._stall_timeout_s):
                await send({"type": "http.response.body", "body": body, "more_body": True})
            if audio is not None:
                self._reply.record.sent(audio, offered=offered)
        # Before the end: whoever has the whole reply may ask again at once, with the same key.
        await asyncio.shield(close_quietly(self._reply))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _bodies(self) -> AsyncIterator[tuple[bytes, Audio | None]]:
        """Pieces of the body, each with the audio in it."""
        events, last_sent = self._first, time.monotonic()
        while True:
            for event in events:
                last_sent = time.monotonic()
                if isinstance(event, Done):
                    if body := self._framing.done(event):
                        yield body, None
                    return
                yield self._framing.audio(event), event
            keepalive = self._framing.keepalive
            if keepalive and time.monotonic() - last_sent > _SSE_KEEPALIVE_S:
                last_sent = time.monotonic()
                yield keepalive, None
            events = await self._reply.read()

    async def _send_error(self, send: Send, error: ApiError) -> None:
        if body := self._framing.error(error):
            # A client that takes nothing must not keep the reply, and its key's stream, for good.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._stall_timeout_s):
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                    await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._touch_every_s)
            try:
                await self._reply.touch()
            except (RedisError, OSError) as error:
                log.warning("reply_not_touched", error=type(error).__name__)


async def close_quietly(reply: Reply) -> None:
    """Close a reply; without Redis its keys expire by themselves."""
    try:
        await reply.close()
    except (RedisError, OSError) as error:
        log.warning("reply_not_closed", error=type(error).__name__)
