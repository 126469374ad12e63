"""Messages out of a byte stream, read in place: what a socket brings goes straight into its message."""

import asyncio
from collections.abc import Callable
from typing import cast

from workers.host.wire import LENGTH_BYTES, WireError, length_of


class FrameReader(asyncio.BufferedProtocol):
    """The receiving half of a connection. Calls `taken` with each message's bytes, which it may keep.

    What is no message, too large, or cannot be handled (WireError from `taken`) ends the connection; `lost` is
    called once, with the reason or None, however it ends.
    """

    def __init__(
        self,
        max_bytes: int,
        *,
        made: Callable[[asyncio.Transport], None],
        taken: Callable[[bytearray], None],
        lost: Callable[[Exception | None], None],
    ) -> None:
        self._max_bytes = max_bytes
        self._made = made
        self._taken = taken
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._error: Exception | None = None
        self._in_head, self._filled, self._buffer = True, 0, bytearray(LENGTH_BYTES)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: uvloop's transports are of no class of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._made(self._transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - it knows what is missing
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled < len(self._buffer) or self._error is not None:
            return
        try:
            if self._in_head:
                length = length_of(self._buffer, self._max_bytes)
                self._in_head, self._filled, self._buffer = False, 0, bytearray(length)
            else:
                body = self._buffer
                self._start_head()
                self._taken(body)
        except WireError as error:
            self._error = error
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(self._error or exc)

    def _start_head(self) -> None:
        self._in_head, self._filled, self._buffer = True, 0, bytearray(LENGTH_BYTES)
