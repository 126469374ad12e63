"""The way out: a gateway that is about to stop sends new clients elsewhere before it takes none.

From the start of the drain `/ready` says no, and each answer closes its connection: a proxy that keeps connections
open must not find one closed under its next request.
"""

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send


class Drain:
    """Whether this gateway has begun to stop; there is no way back."""

    def __init__(self) -> None:
        self.begun = False


class ConnectionCloser:
    """Adds `Connection: close` to answers while draining, which makes the server close after them."""

    def __init__(self, app: ASGIApp, drain: Drain) -> None:
        self._app = app
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return

        async def send_closing(message: Message) -> None:
            if self._drain.begun and message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        await self._app(scope, receive, send_closing)
