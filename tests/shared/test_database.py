"""Where the database is, and what happens when it cannot be used."""

import pytest
from sqlalchemy import URL, text

from shared.database import Database, database_url
from shared.errors import DatabaseError, SettingsError
from shared.settings import DatabaseSettings, Settings


def url_of(url: str) -> str:
    return database_url(Settings(database=DatabaseSettings(url=url))).render_as_string(hide_password=False)


def test_without_a_url_it_is_a_file_in_the_data_folder():
    url = database_url(Settings(data_dir="/var/lib/gepard"))
    assert url.render_as_string() == "sqlite+aiosqlite:////var/lib/gepard/gepard.db"


@pytest.mark.parametrize(
    ("given", "used"),
    {
        "postgresql": ("postgresql://u:p@h/d", "postgresql+asyncpg://u:p@h/d"),
        "the short name that hosting services use": ("postgres://u:p@h:5/d", "postgresql+asyncpg://u:p@h:5/d"),
        "another driver": ("postgresql+psycopg://u:p@h/d", "postgresql+asyncpg://u:p@h/d"),
        "libpq's name for TLS": ("postgres://u@h/d?sslmode=require", "postgresql+asyncpg://u@h/d?sslmode=require"),
        "sqlite": ("sqlite:////tmp/a.db", "sqlite+aiosqlite:////tmp/a.db"),
    }.values(),
)
def test_the_drivers_are_chosen_here(given, used):
    assert url_of(given) == used


@pytest.mark.parametrize("given", ["mysql://u:secret@h/d", "sqlite://", "sqlite:///:memory:", "secret words"])
def test_what_cannot_be_used_is_refused_without_repeating_a_password(given):
    with pytest.raises(SettingsError, match=r"database\.url") as caught:
        url_of(given)
    assert "secret" not in str(caught.value)


async def test_the_file_and_its_folder_are_for_their_owner_only(tmp_path):
    path = tmp_path / "new" / "a.db"
    async with Database(URL.create("sqlite+aiosqlite", database=str(path))) as database, database.session() as session:
        assert (await session.execute(text("PRAGMA foreign_keys"))).scalar() == 1
        assert (await session.execute(text("PRAGMA journal_mode"))).scalar() == "wal"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_a_database_that_is_away_is_named_without_its_password():
    url = URL.create("postgresql+asyncpg", "me", "hunter2", "127.0.0.1", 1, "gepard")
    async with Database(url) as database:
        with pytest.raises(DatabaseError, match=r"me:\*\*\*@127\.0\.0\.1:1/gepard cannot be used") as caught:
            async with database.session() as session:
                await session.execute(text("SELECT 1"))
    assert "hunter2" not in str(caught.value)


async def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    url = URL.create("sqlite+aiosqlite", database=str(tmp_path / "file" / "a.db"))
    async with Database(url) as database:
        with pytest.raises(DatabaseError, match=r"file/a\.db cannot be used"):
            async with database.session():
                pass
