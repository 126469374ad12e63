"""Time to the first byte of a body, by a client that adds as little as it can: one connection, kept open."""

import http.client
import json
import socket
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def get_status(port: int, path: str) -> int | None:
    """Status of a GET; None when nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


def get_text(port: int, path: str) -> str:
    """Body of a GET. Raises OSError when nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


class TimingClient:
    """POSTs JSON to one path."""

    def __init__(self, port: int, path: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._path = path

    def __enter__(self) -> Self:
        self._connection.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def first_byte_ms(self, request: Mapping[str, object]) -> float:
        """Milliseconds from the start of sending to the first byte of the body; the rest is read, not timed."""
        body = json.dumps(request).encode()
        began = time.perf_counter()
        self._connection.request("POST", self._path, body, {"content-type": "application/json"})
        response = self._connection.getresponse()
        first = response.read1(65536)
        elapsed_ms = 1000 * (time.perf_counter() - began)
        rest = response.read()
        if response.status != 200 or not first:
            raise RuntimeError(f"status {response.status}: {(first + rest)[:500]!r}")
        return elapsed_ms
