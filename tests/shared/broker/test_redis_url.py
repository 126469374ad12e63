"""Which URLs are understood, and with whom they connect."""

import asyncio
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from shared.broker.redis_url import pool_of
from tests.support.tls import Certificates, certificates, tls_before


def options_of(url: str) -> dict[str, object]:
    return dict(pool_of(url, max_connections=7).connection_kwargs)


def test_a_plain_url_is_bounded_and_notices_a_silent_host():
    pool = pool_of("redis://me:p%40ss@host:6380/3", max_connections=7)
    assert pool.max_connections == 7
    options = pool.connection_kwargs
    assert (options["host"], options["port"], options["db"]) == ("host", 6380, 3)
    assert (options["username"], options["password"]) == ("me", "p@ss")
    assert options["socket_keepalive"] is True
    assert options["socket_keepalive_options"]


def test_the_url_may_say_otherwise():
    assert pool_of("redis://host?max_connections=3", max_connections=7).max_connections == 3
    assert options_of("redis://host?socket_connect_timeout=9")["socket_connect_timeout"] == 9


@pytest.mark.parametrize(
    ("url", "checked"),
    [
        ("rediss://host", True),
        ("rediss://host?ssl_check_hostname=false", False),
        ("rediss://host?ssl_cert_reqs=none", False),
    ],
)
def test_with_tls_the_host_must_prove_its_name(url: str, checked: bool):
    assert options_of(url)["ssl_check_hostname"] is checked


def test_sentinels_are_read_from_one_url():
    pool = pool_of(
        "rediss+sentinel://me:p%40ss@one:26380,[::1],three/my%20master/2"
        "?sentinel_username=watch&sentinel_password=dog&ssl_ca_certs=/ca.pem",
        max_connections=7,
    )
    assert pool.service_name == "my master"
    options = pool.connection_kwargs
    assert (options["username"], options["password"], options["db"]) == ("me", "p@ss", 2)
    assert options["ssl_check_hostname"] is True
    assert pool.max_connections == 7
    sentinels = [sentinel.connection_pool.connection_kwargs for sentinel in pool.sentinel_manager.sentinels]
    assert [(one["host"], one["port"]) for one in sentinels] == [("one", 26380), ("::1", 26379), ("three", 26379)]
    assert {(one["username"], one["password"], one["ssl_ca_certs"]) for one in sentinels} == {
        ("watch", "dog", "/ca.pem")
    }


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis+cluster://:secret@a,b", "Redis Cluster cannot be used"),
        ("rediss+cluster://:secret@a", "Redis Cluster cannot be used"),
        ("redis+sentinel://:secret@a,b", "a URL of Sentinels is"),
        ("redis+sentinel://:secret@a,/master", "a URL of Sentinels|no host:port"),
        ("redis+sentinel://:secret@a:b/master", "no host:port of a Sentinel"),
        ("http+sentinel://:secret@a/master", "a URL of Sentinels is"),
        ("amqp://:secret@a", "redis://, rediss://, unix://"),
    ],
)
def test_what_cannot_be_used_is_refused_without_its_password(url: str, message: str):
    with pytest.raises(ValueError, match=message) as caught:
        pool_of(url, max_connections=1)
    assert "secret" not in str(caught.value)


# --- TLS for real: the Valkey of the tests speaks none, so a proxy ends it ------------------------------------


@pytest.fixture
def tls(tmp_path: Path) -> Certificates:
    return certificates(tmp_path, "127.0.0.1")


async def ping(url: str) -> bool:
    async with Redis.from_pool(pool_of(url, max_connections=1)) as redis:
        return bool(await redis.ping())


async def test_tls_with_the_right_authority_connects(redis_url: str, tls: Certificates):
    socket = unquote(urlsplit(redis_url).path)
    async with tls_before(lambda: asyncio.open_unix_connection(socket), tls.server) as port:
        assert await ping(f"rediss://127.0.0.1:{port}?ssl_ca_certs={tls.ca}")


async def test_tls_refuses_an_unknown_authority_and_a_wrong_name(redis_url: str, tls: Certificates, tmp_path: Path):
    socket = unquote(urlsplit(redis_url).path)
    async with tls_before(lambda: asyncio.open_unix_connection(socket), tls.server) as port:
        for query in (f"ssl_ca_certs={tls.other_ca}", ""):
            with pytest.raises((RedisError, OSError), match="certificate verify failed"):
                await ping(f"rediss://127.0.0.1:{port}?{query}")
    (tmp_path / "elsewhere").mkdir()
    elsewhere = certificates(tmp_path / "elsewhere", "other.example")
    async with tls_before(lambda: asyncio.open_unix_connection(socket), elsewhere.server) as port:
        with pytest.raises((RedisError, OSError), match=r"not valid for '127\.0\.0\.1'"):
            await ping(f"rediss://127.0.0.1:{port}?ssl_ca_certs={elsewhere.ca}")
        assert await ping(f"rediss://127.0.0.1:{port}?ssl_ca_certs={elsewhere.ca}&ssl_check_hostname=false")
