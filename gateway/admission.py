"""Refuse what would wait too long, before it becomes a job."""

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.errors import ApiError

_NO_WORKER = "Too many requests are waiting for a worker; try again later."


class Admission:
    """Bounds the requests of this gateway that wait: for a worker, or for their upload to be taken in."""

    def __init__(self, max_pending: int, message: str = _NO_WORKER) -> None:
        """`message`: what those hear who find the line full."""
        self._max_pending = max_pending
        self._message = message
        self._pending = 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Hold a place in the line while inside. Raises ApiError at once when the line is full."""
        if self._pending >= self._max_pending:
            raise ApiError("server_overloaded", self._message)
        self._pending += 1
        try:
            yield
        finally:
            self._pending -= 1
