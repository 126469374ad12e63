"""What `redis.url` may say, and the pool of connections it stands for.

- `redis://`, `rediss://` (TLS) and `unix://`, as redis-py reads them;
- `redis+sentinel://[user:password@]host:port,host:port/service[/database]`, and `rediss+sentinel://`: the master that
  Sentinels name, before and after a failover. `?sentinel_username=` and `?sentinel_password=` are theirs.

Not Redis Cluster: arq's transactions span the keys of the queue, of a job and of its progress, which lie in slots of
their own.
"""

import re
import socket
from typing import Any, cast
from urllib.parse import unquote

from redis.asyncio import BlockingConnectionPool
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool

# Connections wait this long for a place in the pool.
_POOL_WAIT_S = 20.0

# A host that is gone says nothing: with these a silent connection is known dead within some 10 s.
_CONNECT_TIMEOUT_S = 5.0
_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 11_000}

_SENTINEL_PORT = 26379
_SENTINEL_TIMEOUT_S = 2.0
_SENTINEL_URL = re.compile(
    r"(?P<scheme>rediss?)\+sentinel://(?:(?P<user>.*)@)?(?P<hosts>[^/?@]+)/(?P<service>[^/?]+)"
    r"(?:/(?P<database>\d*))?(?:\?(?P<query>.*))?"
)
_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]+))(?::(?P<port>\d{1,5}))?")
_SENTINEL_FORM = "redis+sentinel://[user:password@]host:26379,host:26379/service[/database]"


class BlockingSentinelPool(SentinelConnectionPool, BlockingConnectionPool):
    """Connections to the master of the moment, bounded like those to one server."""

    async def disconnect(self, inuse_connections: bool = True) -> None:
        """Close the connections; with all of them go those to the Sentinels, which redis-py leaves open."""
        await super().disconnect(inuse_connections=inuse_connections)
        if inuse_connections:
            for sentinel in self.sentinel_manager.sentinels:
                await sentinel.aclose()


def pool_of(url: str, *, max_connections: int) -> BlockingConnectionPool:
    """A pool that has not connected yet. Raises ValueError for a URL that cannot be used, never with its password."""
    if re.match(r"rediss?\+cluster:", url):
        raise ValueError(
            "Redis Cluster cannot be used, since arq's transactions span its slots; use one Redis, or Sentinel: "
            + _SENTINEL_FORM
        )
    if re.match(r"\w+\+sentinel:", url):
        return _sentinel_pool(url, max_connections)
    options = _with_defaults(cast("dict[str, Any]", parse_url(url)))
    return BlockingConnectionPool(**{"max_connections": max_connections, "timeout": _POOL_WAIT_S, **options})


def _with_defaults(options: dict[str, Any]) -> dict[str, Any]:
    """redis-py's arguments of a URL; the host must prove its name unless the URL says otherwise."""
    if options.get("connection_class") is SSLConnection:
        options.setdefault("ssl_check_hostname", options.get("ssl_cert_reqs") != "none")
    if "path" in options:
        return options
    known = {getattr(socket, name): value for name, value in _KEEPALIVE.items() if hasattr(socket, name)}
    return {
        "socket_connect_timeout": _CONNECT_TIMEOUT_S,
        "socket_keepalive": True,
        "socket_keepalive_options": known,
        **options,
    }


def _sentinel_pool(url: str, max_connections: int) -> BlockingConnectionPool:
    parts = _SENTINEL_URL.fullmatch(url)
    if parts is None:
        raise ValueError(f"a URL of Sentinels is {_SENTINEL_FORM}")
    sentinels = [_address(host) for host in parts["hosts"].split(",")]
    # redis-py knows the rest: user, password, database and query of a plain URL.
    user = f"{parts['user']}@" if parts["user"] is not None else ""
    plain = f"{parts['scheme']}://{user}master/{parts['database'] or 0}?{parts['query'] or ''}"
    options = _with_defaults(cast("dict[str, Any]", parse_url(plain)))
    for name in ("host", "connection_class"):
        options.pop(name, None)
    login = {
        name: options.pop(f"sentinel_{name}") for name in ("username", "password") if f"sentinel_{name}" in options
    }
    tls = {name: value for name, value in options.items() if name.startswith("ssl_")}
    has_tls = parts["scheme"] == "rediss"
    manager = Sentinel(  # type: ignore[no-untyped-call]
        sentinels,
        sentinel_kwargs={
            "socket_connect_timeout": _SENTINEL_TIMEOUT_S,
            "socket_timeout": _SENTINEL_TIMEOUT_S,
            "ssl": has_tls,
            **tls,
            **login,
        },
    )
    return BlockingSentinelPool(  # type: ignore[no-untyped-call]
        unquote(parts["service"]),
        manager,
        **{"max_connections": max_connections, "timeout": _POOL_WAIT_S, "ssl": has_tls, **options},
    )


def _address(text: str) -> tuple[str, int]:
    parts = _HOST.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is no host:port of a Sentinel")
    return parts["ipv6"] or unquote(parts["name"]), int(parts["port"] or _SENTINEL_PORT)
