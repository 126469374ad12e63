import pytest

from gateway.loopback import is_loopback_host


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "localhost:8000", "LOCALHOST:8000", "localhost.", "127.0.0.1", "127.0.0.1:80", "127.1.2.3",
        "[::1]", "[::1]:8000", "[0:0:0:0:0:0:0:1]",
    ],
)  # fmt: skip
def test_names_of_this_machine_are_loopback(host: str):
    assert is_loopback_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "", ".", ":", ":8000", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil-localhost",
        "[::1].evil.example", "[::1]evil.example:80", "[::1", "::1", "[::]", "[evil.example]", "0.0.0.0", "10.0.0.1",
        "a@127.0.0.1", "127.0.0.1@evil.example", "localhost/", "localhost#x", "localhost?x", "localhost\\x",
        "localhost:x", "localhost:80:80", "localhost evil", " localhost", "localhost\n", "127.1", "2130706433",
    ],
)  # fmt: skip
def test_every_other_name_is_not(host: str):
    """A web page reaches this machine by a name of its own that leads to 127.0.0.1."""
    assert not is_loopback_host(host)
