"""The door: a key, or, while there are none, this machine only. It refuses before a body is read."""

from typing import Any

import msgspec
from litestar import Request
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send, WebSocketScope

from gateway.errors import ApiError
from gateway.keys import Keys
from gateway.loopback import loopback_refusal
from shared.settings import Settings
from voices.api_keys import ApiKey
from voices.records import ANONYMOUS, Owner

_OPEN_PATHS = frozenset({"/health", "/ready", "/docs"})
_OPEN_FOLDERS = ("/docs/",)
_LISTS = frozenset({"/v1/models", "/v1/audio/models", "/v1/voices", "/v1/audio/voices"})

_STATE_KEY = "api_key"
_STATE_ANONYMOUS = "anonymous"


def key_of(request: Request[Any, Any, Any]) -> ApiKey | None:
    """The key that the request came with; None where no key is configured."""
    key: ApiKey | None = request.scope["state"].get(_STATE_KEY)
    return key


def viewer_of(request: Request[Any, Any, Any]) -> Owner | None:
    """Whose voices the request may see; None: only public ones, as on a list that is open to everyone."""
    key = key_of(request)
    if key is not None:
        return Owner(key.id)
    return ANONYMOUS if request.scope["state"].get(_STATE_ANONYMOUS) else None


def owner_of(request: Request[Any, Any, Any]) -> Owner:
    """Who makes, changes or deletes a voice. Only for routes that need a key where there are keys."""
    owner = viewer_of(request)
    if owner is None:
        raise RuntimeError("a route that changes voices is open to everyone")
    return owner


class AccessGuard:
    """Lets pass who may; leaves the key in the scope's state for the handlers."""

    def __init__(self, app: ASGIApp, keys: Keys, settings: Settings) -> None:
        self._app = app
        self._keys = keys
        self._open_lists = settings.auth.open_lists
        self._allow_remote = settings.server.allow_remote

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on or refuse."""
        if scope["type"] in (ScopeType.HTTP, ScopeType.WEBSOCKET):
            try:
                await self._check(scope)
            except ApiError as error:
                await _refuse(scope, send, error)
                return
        await self._app(scope, receive, send)

    async def _check(self, scope: HTTPScope | WebSocketScope) -> None:
        if not await self._keys.required():
            if not self._allow_remote and (error := loopback_refusal(scope)) is not None:
                raise error
            scope.setdefault("state", {})[_STATE_ANONYMOUS] = True
        elif not self._is_open(scope):
            authorization = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            key = await self._keys.authenticate(authorization.decode("latin-1"))
            state = scope.setdefault("state", {})
            state[_STATE_KEY] = key
            state["key_id"] = key.id

    def _is_open(self, scope: HTTPScope | WebSocketScope) -> bool:
        path = scope["path"].rstrip("/")
        if path in _OPEN_PATHS or path.startswith(_OPEN_FOLDERS):
            return True
        return self._open_lists and path in _LISTS and scope.get("method") in ("GET", "HEAD")


async def _refuse(scope: HTTPScope | WebSocketScope, send: Send, error: ApiError) -> None:
    scope.setdefault("state", {})["outcome"] = error.code
    body = msgspec.json.encode(error.answer())
    headers = [(name.encode(), value.encode()) for name, value in error.headers().items()]
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    kind = "http" if scope["type"] == ScopeType.HTTP else "websocket.http"
    await send({"type": f"{kind}.response.start", "status": error.kind.status, "headers": headers})  # type: ignore[misc,arg-type]
    await send({"type": f"{kind}.response.body", "body": body, "more_body": False})  # type: ignore[misc,arg-type]
