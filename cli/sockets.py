"""Listening sockets of the gateway."""

import contextlib
import ipaddress
import socket
from collections.abc import Sequence

from shared.errors import SettingsError
from shared.settings import ServerSettings

_BACKLOG = 2048


def is_loopback(host: str) -> bool:
    """Whether binding to `host` leaves the port to this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def needs_key(server: ServerSettings) -> bool:
    """Whether others than this machine could reach the gateway, and no one said that this needs no key."""
    return not server.allow_remote and not is_loopback(server.host.strip("[]"))


def listen(server: ServerSettings, *, has_keys: bool = False) -> list[socket.socket]:
    """Bind; `localhost` means 127.0.0.1 and, where there is one, ::1; `::` means both families.

    A health check or client that says localhost may mean either address. Raises SettingsError when the
    address is not loopback, there are no API keys and it was not allowed without; when it is not valid, or taken.
    """
    host = server.host.strip("[]")
    if needs_key(server) and not has_keys:
        raise _no_key(host)
    if host != "localhost":
        return [_bind(host, server.port)]
    first = _bind("127.0.0.1", server.port)
    sockets = [first]
    with contextlib.suppress(SettingsError):  # no IPv6 here, or another server has ::1: IPv4 is enough
        sockets.append(_bind("::1", first.getsockname()[1]))
    return sockets


def inherit(fds: Sequence[int], server: ServerSettings, *, has_keys: bool) -> list[socket.socket]:
    """Sockets that another process bound. Raises SettingsError as `listen` does: the keys may be gone since."""
    sockets = [socket.socket(fileno=fd) for fd in fds]
    for sock in sockets:
        address = sock.getsockname()[0]
        if not has_keys and not server.allow_remote and not is_loopback(address):
            raise _no_key(address)
    return sockets


def _no_key(host: str) -> SettingsError:
    return SettingsError(
        f"without API keys only this machine is served: server.host is {host}; make a key with `gepard keys "
        "create NAME`, use localhost, or set server.allow_remote to true to let everyone who can reach the port use it"
    )


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}: {error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # Linux maps IPv4 onto :: by default, other systems do not.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise SettingsError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another port (server.port, PORT=)"
        ) from error
    return sock


def url_of(sock: socket.socket) -> str:
    """The URL at which this machine reaches a listening socket."""
    host, port = sock.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1")
    return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"  # noqa: PLR2004
