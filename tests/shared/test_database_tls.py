"""TLS to PostgreSQL: whom it trusts, and that it is really used. A proxy ends TLS: the server's own build has none."""

import asyncio
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy import make_url, text

from shared.database import Database, database_url
from shared.database_tls import split_tls
from shared.errors import DatabaseError, SettingsError
from shared.settings import DatabaseSettings, Settings
from tests.support.tls import Certificates, certificates, tls_before


@pytest.fixture
def tls(tmp_path: Path) -> Certificates:
    return certificates(tmp_path, "127.0.0.1")


async def answer(url: str) -> object:
    settings = Settings(database=DatabaseSettings(url=url))
    async with Database(database_url(settings)) as database, database.session() as session:
        return (await session.execute(text("SELECT 1"))).scalar()


def socket_of(postgres_url: str) -> str:
    folder = parse_qs(urlsplit(postgres_url).query)["host"][0]
    return f"{folder}/.s.PGSQL.5432"


@pytest.mark.parametrize(
    "query", ["sslmode=require", "sslmode=verify-ca&sslrootcert={ca}", "sslmode=verify-full&sslrootcert={ca}"]
)
async def test_a_server_that_proves_who_it_is_is_used(postgres_url: str, tls: Certificates, query: str):
    path = socket_of(postgres_url)
    async with tls_before(lambda: asyncio.open_unix_connection(path), tls.server, postgres=True) as port:
        assert await answer(f"postgresql://postgres@127.0.0.1:{port}/postgres?{query.format(ca=tls.ca)}") == 1


@pytest.mark.parametrize(
    "query",
    [
        "sslmode=require&sslrootcert={other}",
        "sslmode=verify-ca&sslrootcert={other}",
        "sslmode=verify-full",
        "sslrootcert=system",
    ],
)
async def test_a_server_that_does_not_is_refused(postgres_url: str, tls: Certificates, query: str):
    path = socket_of(postgres_url)
    async with tls_before(lambda: asyncio.open_unix_connection(path), tls.server, postgres=True) as port:
        with pytest.raises(DatabaseError, match="certificate verify failed"):
            await answer(f"postgresql://postgres@127.0.0.1:{port}/postgres?{query.format(other=tls.other_ca)}")


async def test_verify_full_looks_at_the_name_and_verify_ca_does_not(postgres_url: str, tmp_path: Path):
    path = socket_of(postgres_url)
    elsewhere = certificates(tmp_path, "other.example")
    async with tls_before(lambda: asyncio.open_unix_connection(path), elsewhere.server, postgres=True) as port:
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslrootcert={elsewhere.ca}&sslmode="
        with pytest.raises(DatabaseError, match=r"not valid for '127\.0\.0\.1'"):
            await answer(url + "verify-full")
        assert await answer(url + "verify-ca") == 1


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer"])
def test_what_asks_for_no_proof_is_left_to_the_driver(mode: str):
    url, arguments = split_tls(make_url(f"postgresql+asyncpg://h/d?sslmode={mode}&application_name=x"))
    assert arguments == {"ssl": mode}
    assert dict(url.query) == {"application_name": "x"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("sslmode=verify", "sslmode is one of"),
        ("sslmode=require&sslrootcert=/nowhere.pem", "cannot be read .*nowhere.pem"),
    ],
)
def test_what_is_wrong_is_said_at_the_start_without_the_password(query: str, message: str):
    settings = Settings(database=DatabaseSettings(url=f"postgresql://me:hunter2@h/d?{query}"))
    with pytest.raises(SettingsError, match=message) as caught:
        database_url(settings)
    assert "hunter2" not in str(caught.value)
