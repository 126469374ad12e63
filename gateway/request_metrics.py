"""Counts every HTTP request by its route template, status and error code."""

import time

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from gateway.errors import ERRORS
from gateway.metrics import Metrics
from gateway.speech_record import CLIENT_GONE, DONE

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER = "other"
_NO_ROUTE = "none"
_NOT_ANSWERED = "none"

_CODES = frozenset({*ERRORS, "client_stalled", "reply_gap", "interrupted"})
"""The closed set of error labels: every code, and the outcomes of a reply that have none."""


class RequestMetrics:
    """An outer layer, inside the request log: sees refusals of the guard and unknown paths too."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on; count at the end of the reply."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), _NOT_ANSWERED

        async def send_noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        finally:
            self._count(scope, status, time.perf_counter() - began)

    def _count(self, scope: HTTPScope, status: str, seconds: float) -> None:
        # Set by the router, and only for a path that it knows: a raw path must not become a label.
        route = str(scope.get("path_template") or _NO_ROUTE)
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        self._metrics.requests.labels(method, route, status).inc()
        self._metrics.request_seconds.labels(route).observe(seconds)
        outcome = scope["state"].get("outcome", DONE)
        if outcome not in (DONE, CLIENT_GONE):
            self._metrics.errors.labels(route, outcome if outcome in _CODES else _OTHER).inc()
        if _retries(scope) > 0:
            self._metrics.client_retries.labels(route).inc()


def _retries(scope: HTTPScope) -> int:
    """How often an OpenAI SDK has sent this request before; 0 where the header is absent or odd."""
    for name, value in scope["headers"]:
        if name == b"x-stainless-retry-count":
            return int(value) if value.isdigit() and len(value) < 3 else 0  # noqa: PLR2004
    return 0
