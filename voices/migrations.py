"""Brings the database to this version's tables, however many processes start at once.

Each migrator first takes a lock that ends with its transaction: a killed one leaves neither a lock nor half
a change.
"""

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import URL, Connection, event, text
from sqlalchemy.exc import SQLAlchemyError

from shared.database import SQLITE, Database, unusable, with_file
from shared.errors import DatabaseError
from shared.telemetry import get_logger

# An arbitrary number, the same in every version: what PostgreSQL's advisory locks are named by.
LOCK = 6_710_889

log = get_logger()


async def upgrade(url: URL, revision: str = "head") -> None:
    """Migrate up. Raises DatabaseError when the database cannot be used, or is newer than this version."""
    await _run(url, lambda config: command.upgrade(config, revision))


async def downgrade(url: URL, revision: str) -> None:
    """Migrate down to a revision; `base` is the empty database."""
    await _run(url, lambda config: command.downgrade(config, revision))


def script_folder() -> Path:
    """The migrations: inside this package in an installed wheel, beside it in the repository."""
    package = Path(__file__).parent
    installed = package / "alembic"
    return installed if installed.exists() else package.parent / "alembic"


async def _run(url: URL, action: Any) -> None:  # noqa: ANN401
    with_file(url)
    async with Database(url, pooled=False) as database:
        if url.get_backend_name() == SQLITE:
            event.listen(database.engine.sync_engine, "connect", _own_transactions)
            event.listen(database.engine.sync_engine, "begin", _begin_immediate)
        try:
            async with database.engine.begin() as connection:
                await connection.run_sync(_locked, action)
        except CommandError as error:
            raise DatabaseError(
                f"the database {url.render_as_string(hide_password=True)} was made by a newer version of gepard "
                f"({error}); install that version, or restore a backup from before"
            ) from error
        except (SQLAlchemyError, OSError) as error:
            raise unusable(url, error) from error


def _locked(connection: Connection, action: Any) -> None:  # noqa: ANN401
    if connection.dialect.name != SQLITE:  # SQLite: BEGIN IMMEDIATE is the lock
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    config = Config()
    config.set_main_option("script_location", str(script_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    before = _revision(connection)
    action(config)
    if (after := _revision(connection)) != before:
        log.info("database_migrated", before=before, after=after)


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _own_transactions(connection: Any, _: object) -> None:  # noqa: ANN401
    """Keep Python's driver from committing before a change of tables, and foreign keys from following it.

    Copying a table, which is how SQLite changes one, would otherwise delete the rows that point at it.
    """
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = OFF")
    cursor.close()


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
