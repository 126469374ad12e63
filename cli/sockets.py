"""Listening sockets of the gateway."""

import errno
import ipaddress
import socket
from collections.abc import Sequence

from shared.errors import SettingsError
from shared.settings import ServerSettings

_BACKLOG = 2048
_PORT_TRIES = 20


def is_loopback(host: str) -> bool:
    """Whether binding to `host` leaves the port to this machine."""
    if _is_localhost(host):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def needs_key(server: ServerSettings) -> bool:
    """Whether others than this machine could reach the gateway, and no one said that this needs no key."""
    return not server.allow_remote and not is_loopback(server.host)


def listen(server: ServerSettings, *, has_keys: bool = False) -> list[socket.socket]:
    """Bind; `localhost` means 127.0.0.1 and, where there is one, ::1; `::` means both families.

    A health check or client that says localhost may mean either address. Raises SettingsError when the
    address is not loopback, there are no API keys and it was not allowed without; when it is not valid, or taken.
    """
    host, port = server.host.strip("[]"), server.port
    if needs_key(server) and not has_keys:
        raise _no_key(host)
    try:
        return _bind_localhost(port) if _is_localhost(host) else [_bind(host, port)]
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(
                f"port {port} is taken on {host}: stop the program that uses it, or choose another (--port, "
                "server.port; 0 finds a free one)"
            ) from error
        reason = error.strerror or error
        raise SettingsError(f"cannot listen on {host} port {port}: {reason} (server.host, server.port)") from error


def inherit(fds: Sequence[int], server: ServerSettings, *, has_keys: bool) -> list[socket.socket]:
    """Sockets that another process bound. Raises SettingsError as `listen` does: the keys may be gone since."""
    sockets = [socket.socket(fileno=fd) for fd in fds]
    for sock in sockets:
        address = sock.getsockname()[0]
        if not has_keys and not server.allow_remote and not is_loopback(address):
            for each in sockets:
                each.close()
            raise _no_key(address)
    return sockets


def url_of(sock: socket.socket) -> str:
    """The URL at which this machine reaches a listening socket."""
    host, port = sock.getsockname()[:2]
    return http_url(host, port)


def http_url(host: str, port: int) -> str:
    """The URL at which this machine reaches a gateway that listens on `host`."""
    host = host.strip("[]")
    if _is_localhost(host) or host in ("0.0.0.0", "::"):  # noqa: S104  # compared, not bound
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _no_key(host: str) -> SettingsError:
    return SettingsError(
        f"without API keys only this machine is served, and server.host is {host}: make a key (gepard keys create "
        "NAME), use localhost, or let everyone who can reach the port use it (--allow-remote, server.allow_remote)"
    )


def _is_localhost(host: str) -> bool:
    return host.lower().removesuffix(".") == "localhost"


def _bind_localhost(port: int) -> list[socket.socket]:
    """Both loopback addresses on one port. A port that another server has on ::1 counts as taken."""
    tries_left = _PORT_TRIES if port == 0 else 1
    while True:
        tries_left -= 1
        first = _bind("127.0.0.1", port)
        try:
            return [first, _bind("::1", first.getsockname()[1])]
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return [first]  # no IPv6 here
            first.close()
            if tries_left == 0:
                raise


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # Linux maps IPv4 onto :: by default, other systems do not.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
