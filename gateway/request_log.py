"""Gives every request an id, its time and one line in the log."""

import secrets
import time

import structlog
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from shared.telemetry import get_logger

log = get_logger()

_QUIET_PATHS = frozenset({"/health", "/ready", "/metrics", "/v1", "/v1/"})
"""Asked all the time by probes and clients that warm up: logged at debug level."""


class RequestLog:
    """Outermost layer: sees errors and unknown paths too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add `x-request-id` and `openai-processing-ms`; log a summary line at the end.

        Puts `arrived` (`time.perf_counter`) into the scope's state; logs the `outcome` and `attempts` it finds there.
        """
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        request_id = f"req_{secrets.token_hex(16)}"
        status, first_ms, sent_bytes = 0, 0.0, 0

        async def send_marked(message: Message) -> None:
            nonlocal status, first_ms, sent_bytes
            if message["type"] == "http.response.start":
                first_ms = 1000 * (time.perf_counter() - began)
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    (b"openai-processing-ms", str(round(first_ms)).encode()),
                ]
            elif message["type"] == "http.response.body":
                sent_bytes += len(message["body"])
            await send(message)

        state = scope.setdefault("state", {})
        state["arrived"] = began
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, send_marked)
            finally:
                write = log.debug if scope["path"] in _QUIET_PATHS else log.info
                write(
                    "request",
                    method=scope["method"],
                    path=scope["path"],
                    status=status,
                    outcome=state.get("outcome"),
                    key_id=state.get("key_id"),
                    attempts=state.get("attempts"),
                    first_ms=round(first_ms, 1),
                    total_ms=round(1000 * (time.perf_counter() - began), 1),
                    bytes=sent_bytes,
                )
