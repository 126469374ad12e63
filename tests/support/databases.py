"""Databases of their own for tests, and keys in them."""

import asyncio
import contextlib
import secrets
from collections.abc import Iterator, Mapping

import asyncpg
from sqlalchemy import URL, make_url

from shared.database import Database, database_url
from shared.settings import Settings
from voices import migrations
from voices.api_keys import ApiKey, KeyLimits, KeyRegistry


@contextlib.contextmanager
def empty_database(server_url: str) -> Iterator[URL]:
    """A new PostgreSQL database, dropped at the end."""
    server = make_url(server_url)
    name = f"t_{secrets.token_hex(6)}"
    asyncio.run(_execute(server, f"CREATE DATABASE {name}"))
    try:
        yield server.set(drivername="postgresql+asyncpg", database=name)
    finally:
        asyncio.run(_execute(server, f"DROP DATABASE {name} WITH (FORCE)"))


async def _execute(server: URL, statement: str) -> None:
    connection = await asyncpg.connect(host=server.query["host"], user=server.username, database=server.database)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def make_key(
    settings: Settings, name: str = "test", *, lexicon: Mapping[str, str] | None = None, **limits: int
) -> tuple[ApiKey, str]:
    """A key in the database of these settings."""
    url = database_url(settings)
    await migrations.upgrade(url)
    async with Database(url) as database:
        return await KeyRegistry(database).create(name, KeyLimits(**limits), lexicon)
