"""The registry's database: SQLite in the data folder by default, PostgreSQL for several hosts.

Only processes that need the registry import this module: a worker never does.
"""

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from advanced_alchemy.config import AsyncSessionConfig, EngineConfig, SQLAlchemyAsyncConfig
from sqlalchemy import URL, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.pool import NullPool

from shared.database_tls import split_tls
from shared.errors import DatabaseError, SettingsError
from shared.settings import Settings

SQLITE = "sqlite"

_FILE_NAME = "gepard.db"
_DRIVERS = {SQLITE: "sqlite+aiosqlite", "postgres": "postgresql+asyncpg", "postgresql": "postgresql+asyncpg"}
_SCHEME = re.compile(r"(?P<name>[a-z]+)(\+[a-z0-9]+)?$")

# Writers of one SQLite file wait for each other this long.
_SQLITE_BUSY_MS = 10_000
_POOL_SIZE = 5
_POOL_OVERFLOW = 5
_POOL_WAIT_S = 10.0


def database_url(settings: Settings) -> URL:
    """The URL with its async driver; the SQLite file in the data folder when none is set.

    Raises SettingsError for what is no URL or another database.
    """
    if not settings.database.url:
        return URL.create(_DRIVERS[SQLITE], database=str(settings.data_path() / _FILE_NAME))
    try:
        url = make_url(settings.database.url)
    except ArgumentError as error:
        # The text is not repeated: it may hold a password.
        raise SettingsError("database.url is not a URL; write postgresql://user:password@host/name") from error
    scheme = _SCHEME.match(url.drivername)
    driver = _DRIVERS.get(scheme["name"]) if scheme else None
    if driver is None:
        raise SettingsError(f"database.url: {url.drivername} is not supported; use postgresql:// or sqlite:///")
    if driver == _DRIVERS[SQLITE] and url.database in (None, "", ":memory:"):
        raise SettingsError("database.url: SQLite needs a file, e.g. sqlite:////var/lib/gepard/gepard.db")
    url = url.set(drivername=driver)
    if driver != _DRIVERS[SQLITE]:
        split_tls(url)  # what is wrong with it is heard now, not at the first connection
    return url


class Database:
    """An engine with its sessions; close it. Its failures come as DatabaseError, without the password."""

    def __init__(self, url: URL, *, pooled: bool = True) -> None:
        self.url = url
        self._is_sqlite = url.get_backend_name() == SQLITE
        engine: dict[str, Any] = {"poolclass": NullPool}
        if pooled and not self._is_sqlite:
            engine = {
                "pool_size": _POOL_SIZE,
                "max_overflow": _POOL_OVERFLOW,
                "pool_timeout": _POOL_WAIT_S,
                # A connection that the server or a proxy has closed meanwhile is replaced.
                "pool_pre_ping": True,
            }
        elif pooled:
            engine = {"pool_size": _POOL_SIZE, "max_overflow": 0, "pool_timeout": _POOL_WAIT_S}
        plain, tls = (url, {}) if self._is_sqlite else split_tls(url)
        if tls:
            engine["connect_args"] = tls
        self._config = SQLAlchemyAsyncConfig(
            connection_string=plain.render_as_string(hide_password=False),
            engine_config=EngineConfig(**engine),
            session_config=AsyncSessionConfig(expire_on_commit=False),
        )
        if self._is_sqlite:
            event.listen(self.engine.sync_engine, "connect", _prepare_sqlite)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def engine(self) -> AsyncEngine:
        """The engine, for what is not a session's work."""
        return self._config.get_engine()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncSession]:
        """One transaction, committed at the end. Raises DatabaseError when the database fails."""
        with_file(self.url)
        try:
            async with self._config.get_session() as session, session.begin():
                yield session
        except (SQLAlchemyError, OSError) as error:
            raise unusable(self.url, error) from error

    async def close(self) -> None:
        """Close all connections."""
        await self.engine.dispose()


def unusable(url: URL, error: Exception) -> DatabaseError:
    """The error that says which database failed, and how."""
    cause = getattr(error, "orig", None) or error
    reason = str(cause).strip().partition("\n")[0] or type(cause).__name__
    return DatabaseError(f"the database {url.render_as_string(hide_password=True)} cannot be used: {reason}")


def with_file(url: URL) -> None:
    """Make the folder and the file of a SQLite database, for this user's eyes only."""
    if url.get_backend_name() != SQLITE or url.database is None:
        return
    path = Path(url.database)
    if path.exists():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise unusable(url, error) from error


def _prepare_sqlite(connection: Any, _: object) -> None:  # noqa: ANN401  # SQLAlchemy's adapter of aiosqlite
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_SQLITE_BUSY_MS}")
    # Readers and a writer do not block each other; a power cut may lose the last commits, not the file.
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()
