import contextlib
import errno
import os
import socket
from collections.abc import Iterator

import pytest

from cli.sockets import http_url, inherit, is_loopback, listen, url_of
from shared.errors import SettingsError
from shared.settings import ServerSettings


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="no IPv6 on this machine")


@contextlib.contextmanager
def listening(host: str, port: int = 0, *, allow_remote: bool = False) -> Iterator[list[socket.socket]]:
    sockets = listen(ServerSettings(host=host, port=port, allow_remote=allow_remote))
    try:
        yield sockets
    finally:
        for sock in sockets:
            sock.close()


def answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@needs_ipv6
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "localhost."])
def test_localhost_is_both_loopback_addresses(host: str):
    with listening(host) as sockets:
        port = sockets[0].getsockname()[1]
        assert [sock.getsockname()[:2] for sock in sockets] == [("127.0.0.1", port), ("::1", port)]
        assert answers("127.0.0.1", port)
        assert answers("::1", port)


def test_localhost_is_ipv4_where_there_is_no_ipv6(monkeypatch: pytest.MonkeyPatch):
    from cli import sockets as module  # noqa: PLC0415

    bind = module._bind

    def without_ipv6(host: str, port: int) -> socket.socket:
        if ":" in host:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        return bind(host, port)

    monkeypatch.setattr(module, "_bind", without_ipv6)
    with listening("localhost") as (only,):
        assert only.getsockname()[0] == "127.0.0.1"


@needs_ipv6
@pytest.mark.parametrize("host", ["::", "[::]"])
def test_double_colon_answers_on_both_families(host: str):
    with listening(host, allow_remote=True) as (only,):
        port = only.getsockname()[1]
        assert answers("127.0.0.1", port)
        assert answers("::1", port)


@needs_ipv6
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_an_ipv6_address_is_that_address_alone(host: str):
    with listening(host) as (only,):
        port = only.getsockname()[1]
        assert answers("::1", port)
        assert not answers("127.0.0.1", port)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gateway.example", ""])
def test_what_others_could_reach_must_be_allowed(host: str):
    with pytest.raises(SettingsError, match=r"--allow-remote, server\.allow_remote"):
        listen(ServerSettings(host=host, port=0))


def test_with_an_api_key_others_may_reach_it():
    (only,) = listen(ServerSettings(host="0.0.0.0", port=0), has_keys=True)
    with only:
        assert answers("127.0.0.1", only.getsockname()[1])


@pytest.mark.parametrize(
    ("host", "has_keys", "allow_remote", "served"),
    [
        ("127.0.0.1", False, False, True),
        ("0.0.0.0", True, False, True),
        ("0.0.0.0", False, True, True),
        ("0.0.0.0", False, False, False),
    ],
)
def test_an_inherited_socket_is_judged_anew(host: str, has_keys: bool, allow_remote: bool, served: bool):
    """A gateway that is started again may find that its keys are gone, with the database."""
    with socket.create_server((host, 0)) as bound:
        server = ServerSettings(allow_remote=allow_remote)
        fd = os.dup(bound.fileno())
        if served:
            (inherited,) = inherit([fd], server, has_keys=has_keys)
            with inherited:
                assert inherited.getsockname() == bound.getsockname()
        else:
            with pytest.raises(SettingsError, match="gepard keys create NAME"):
                inherit([fd], server, has_keys=has_keys)


@pytest.mark.parametrize("taken", ["127.0.0.1", pytest.param("::1", marks=needs_ipv6)])
def test_a_taken_port_is_said_so(taken: str):
    """On ::1 too: a client that says localhost would reach the other server."""
    with socket.socket(socket.AF_INET6 if ":" in taken else socket.AF_INET) as other:
        other.bind((taken, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(SettingsError, match=f"port {port} is taken on localhost: .*--port"):
            listen(ServerSettings(port=port))


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_this_machine_lacks_is_said_so(host: str):
    with pytest.raises(SettingsError, match=rf"cannot listen on {host} port 0: \w+"):
        listen(ServerSettings(host=host, port=0, allow_remote=True))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True),
        ("::", False), ("0.0.0.0", False), ("10.0.0.1", False), ("localhost.example", False), ("", False),
    ],
)  # fmt: skip
def test_what_counts_as_loopback(host: str, loopback: bool):
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("localhost", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://127.0.0.1:8000"),
        ("[::1]", "http://[::1]:8000"),
        ("192.0.2.1", "http://192.0.2.1:8000"),
    ],
)
def test_the_url_at_which_this_machine_reaches_it(host: str, url: str):
    assert http_url(host, 8000) == url


def test_the_url_of_a_socket_names_its_real_port():
    with listening("127.0.0.1") as (sock,):
        assert url_of(sock) == f"http://127.0.0.1:{sock.getsockname()[1]}"
