"""One speech request by the least that HTTP/1.1 needs: what a client adds must not hide what a server can.

No header or byte is copied that is not asked for: some microseconds a read, whatever its size.
"""

import asyncio
import json
import time
from typing import cast

from cli.bench.audio_clock import BARE_SAMPLE_BYTES
from cli.bench.stream import Stream

_BUFFER_BYTES = 512 * 1024
_END_OF_HEAD = b"\r\n\r\n"
_MAX_HEAD_BYTES = 64 * 1024

# The event loop fills it and hands it over at once: one serves all connections of a thread.
_buffer = memoryview(bytearray(_BUFFER_BYTES))


class BadReply(Exception):
    """What came is no HTTP reply that this reader knows."""


class SpeechConnection(asyncio.BufferedProtocol):
    """A connection for one request; its reply goes into a Stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._keep = stream.audio_format not in BARE_SAMPLE_BYTES
        self._transport: asyncio.Transport | None = None
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = bytearray()
        self._error_body: bytearray | None = None
        self._size_line = bytearray()
        self._in_head = True
        self._left = 0
        """Bytes of the chunk that are to come, its end of line included."""
        self._is_chunked = True
        self._num_bytes = 0

    async def ask(self, port: int, body: bytes, due: float, *, timeout_s: float) -> None:
        """Send the request at `due` (`time.perf_counter`) and follow the reply to its end; never raises."""
        stream, loop = self._stream, asyncio.get_running_loop()
        stream.due = due
        head = (
            f"POST /v1/audio/speech HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        try:
            # A connection made at the moment of asking would be a part of the latency.
            await asyncio.sleep(due - time.perf_counter() - 1.0)
            async with asyncio.timeout(10 + timeout_s):
                transport, _ = await loop.create_connection(lambda: self, "127.0.0.1", port)
                await asyncio.sleep(due - time.perf_counter())
                async with asyncio.timeout(timeout_s):
                    transport.write(head.encode() + body)
                    await self._ended
        except TimeoutError:
            stream.error = "timeout"
        except (OSError, BadReply) as error:
            stream.error = "broken_off" if isinstance(error, ConnectionError) else type(error).__name__
        finally:
            stream.end = time.perf_counter()
            if self._transport is not None:
                self._transport.abort()

    # --- Called by the event loop --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # one size for all
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._take(_buffer[:nbytes])
        except (BadReply, ValueError) as error:
            self._end(BadReply(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc if isinstance(exc, OSError) else ConnectionError("closed before its end"))

    def _end(self, error: Exception | None) -> None:
        if not self._ended.done():
            if error is None:
                self._ended.set_result(None)
            else:
                self._ended.set_exception(error)

    # --- The reply -----------------------------------------------------------------------------------------

    def _take(self, data: memoryview) -> None:
        if self._in_head:
            rest = self._read_head(data)
            if rest is None:
                return
            data = memoryview(rest)
        before = self._num_bytes
        is_over = self._read_chunks(data)
        if self._num_bytes > before and self._error_body is None:
            self._stream.arrivals.append((time.perf_counter(), self._num_bytes))
        if is_over:
            if self._error_body is not None:
                self._stream.error = _error_code(bytes(self._error_body))
            self._end(None)

    def _read_head(self, data: memoryview) -> bytes | None:
        """What follows the head, once it is whole."""
        self._head += data
        head, end, rest = bytes(self._head).partition(_END_OF_HEAD)
        if not end:
            if len(self._head) > _MAX_HEAD_BYTES:
                raise BadReply("a head without an end")
            return None
        lines = head.decode("latin-1").split("\r\n")
        status = lines[0].split(" ")[1]
        headers = dict(line.lower().split(": ", 1) for line in lines[1:])
        self._in_head = False
        if status != "200":
            self._error_body = bytearray()
        if (rate := headers.get("x-sample-rate", "")).isdigit():
            self._stream.rate_hz = int(rate)
        if "content-length" in headers:
            self._left = int(headers["content-length"])
            self._is_chunked = False
        elif headers.get("transfer-encoding") != "chunked":
            raise BadReply("neither chunked nor of a known length")
        return rest

    def _read_chunks(self, data: memoryview) -> bool:
        """Count, or keep, what is in the body; whether its end came."""
        if not self._is_chunked:
            self._left -= len(data)
            self._count(data)
            return self._left <= 0
        place, size = 0, len(data)
        while place < size:
            if self._left > 0:
                taken = min(self._left, size - place)
                # The last two bytes of a chunk end its line.
                payload = max(0, min(taken, self._left - 2))
                self._left -= taken
                self._count(data[place : place + payload])
                place += taken
                continue
            byte = data[place]
            place += 1
            self._size_line.append(byte)
            if byte == 0x0A:  # the end of a line
                length = int(self._size_line, 16)
                self._size_line.clear()
                if length == 0:
                    return True
                self._left = length + 2
        return False

    def _count(self, payload: memoryview) -> None:
        if self._error_body is not None:
            self._error_body += payload
            return
        self._num_bytes += len(payload)
        if self._keep:
            self._stream.body += payload


def _error_code(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return "http_error"
