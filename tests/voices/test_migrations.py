"""The same migrations on SQLite and PostgreSQL, up and down, with rows in the tables."""

import asyncio
import shutil
import subprocess
import sys
from datetime import UTC, date, datetime

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from shared.database import Database
from shared.errors import DatabaseError
from voices import migrations
from voices.api_keys import DayUsage, KeyLimits, KeyRegistry
from voices.models import ApiKeyRow

REVISION = """
import sqlalchemy as sa
from alembic import op

revision = "9000"
down_revision = "{head}"


def upgrade():
{upgrade}


def downgrade():
    with op.batch_alter_table("api_keys", recreate="auto") as table:
        table.drop_column("team")
        table.alter_column("name", type_=sa.String(100), existing_nullable=False)
"""


OLD_KEY = """
INSERT INTO api_keys (id, name, prefix, hash, source, requests_per_minute, created_at)
VALUES ('key_1', 'old', 'gp-12345', 'abc', 'command', 3, '2026-01-01 00:00:00+00:00')
"""


async def tables(url) -> set[str]:
    async with Database(url, pooled=False) as database, database.engine.connect() as connection:
        return set(await connection.run_sync(lambda sync: inspect(sync).get_table_names()))


async def fill(url):
    """A key with limits and a day of usage."""
    async with Database(url) as database:
        registry = KeyRegistry(database)
        key, _ = await registry.create("laptop", KeyLimits(requests_per_minute=3))
        used = DayUsage(key_id=key.id, day=date(2026, 1, 2), requests=1, characters=5, audio_seconds=0.5)
        await registry.record([used], [(key.id, datetime.now(UTC))])
        return key, used


async def test_up_down_and_up_again_with_rows(database):
    await migrations.upgrade(database)
    await fill(database)
    await migrations.downgrade(database, "base")
    assert await tables(database) == {"alembic_version"}
    await migrations.upgrade(database)
    key, used = await fill(database)
    await migrations.upgrade(database)
    async with Database(database) as opened:
        registry = KeyRegistry(opened)
        assert [found.id for found in await registry.all()] == [key.id]
        assert await registry.usage(key.id) == [used]


async def constraints(url) -> set[str]:
    async with Database(url, pooled=False) as database, database.engine.connect() as connection:
        found = await connection.run_sync(lambda sync: inspect(sync).get_check_constraints("api_keys"))
        return {check["name"] for check in found}


async def test_keys_get_a_lexicon_and_lose_only_that_on_the_way_back(database):
    await migrations.upgrade(database, "0002")
    before = await constraints(database)
    async with Database(database) as opened, opened.session() as session:
        await session.execute(text(OLD_KEY))
        await session.execute(text("INSERT INTO usage VALUES ('key_1', '2026-01-02', 1, 5, 0.5)"))
    await migrations.upgrade(database, "0003")
    async with Database(database) as opened:
        registry = KeyRegistry(opened)
        assert [key.lexicon for key in await registry.all()] == [None]
        assert (await registry.set_lexicon("old", {"a": "b"})).lexicon is not None
    await migrations.downgrade(database, "0002")
    async with Database(database) as opened, opened.session() as session:
        assert (await session.execute(text("SELECT id, requests_per_minute FROM api_keys"))).all() == [("key_1", 3)]
        assert (await session.execute(text("SELECT characters FROM usage"))).all() == [(5,)]
    assert await constraints(database) == before
    assert len(before) == 3
    await migrations.upgrade(database)
    async with Database(database) as opened:
        assert [key.lexicon for key in await KeyRegistry(opened).all()] == [None]


VOICE_ROWS = (
    "INSERT INTO consents (id, owner, name, language, sha256, created_at)"
    " VALUES ('cons_1', '', 'ann', 'en', 'abc', '2026-01-01 00:00:00+00:00')",
    "INSERT INTO voices (id, owner, name, name_key, description, is_public, sha256, clip_s, consent, consent_id,"
    " created_at) VALUES ('voice_1', '', 'Ann', 'ann', '', false, 'abc', 3.5, 'cons_1', 'cons_1',"
    " '2026-01-01 00:00:00+00:00')",
    "INSERT INTO voice_status (voice_id, model, revision, status, kind, updated_at)"
    " VALUES ('voice_1', 'hibari', '1', 'ready', 'matched', '2026-01-01 00:00:00+00:00')",
)
VOICE_TABLES = {"consents", "voices", "voice_status"}


async def test_voices_pass_through_later_migrations_and_go_with_their_own(database):
    await migrations.upgrade(database, "0002")
    async with Database(database) as opened, opened.session() as session:
        await session.execute(text(OLD_KEY))
        for statement in VOICE_ROWS:
            await session.execute(text(statement))

    async def voices() -> list[tuple[str, str, str]]:
        query = (
            "SELECT voices.name, consents.name, voice_status.status FROM voices"
            " JOIN consents ON consents.id = consent_id JOIN voice_status ON voice_id = voices.id"
        )
        async with Database(database) as opened, opened.session() as session:
            return [tuple(row) for row in (await session.execute(text(query))).all()]

    await migrations.upgrade(database)
    assert await voices() == [("Ann", "ann", "ready")]
    await migrations.downgrade(database, "0002")
    assert await voices() == [("Ann", "ann", "ready")]
    await migrations.downgrade(database, "0001")
    assert not await tables(database) & VOICE_TABLES
    async with Database(database) as opened, opened.session() as session:
        assert (await session.execute(text("SELECT id FROM api_keys"))).all() == [("key_1",)]
    await migrations.upgrade(database)
    assert await tables(database) >= VOICE_TABLES
    assert await voices() == []


async def test_the_models_are_what_the_migrations_make(database):
    await migrations.upgrade(database)

    def differences(connection):
        return compare_metadata(MigrationContext.configure(connection), ApiKeyRow.metadata)

    async with Database(database, pooled=False) as opened, opened.engine.connect() as connection:
        assert await connection.run_sync(differences) == []


def test_there_is_one_line_of_migrations():
    assert len(ScriptDirectory(str(migrations.script_folder())).get_heads()) == 1


@pytest.fixture
def next_revision(tmp_path, monkeypatch):
    """Adds a migration to those there are."""

    def add(upgrade: str) -> None:
        folder = tmp_path / "scripts"
        shutil.copytree(migrations.script_folder(), folder)
        head = ScriptDirectory(str(folder)).get_current_head()
        (folder / "versions" / "9000_next.py").write_text(REVISION.format(head=head, upgrade=upgrade))
        monkeypatch.setattr(migrations, "script_folder", lambda: folder)

    return add


ADD_COLUMN = """
    with op.batch_alter_table("api_keys", recreate="auto") as table:
        table.alter_column("name", type_=sa.String(200), existing_nullable=False)
        table.add_column(sa.Column("team", sa.String(10), nullable=False, server_default="none"))
"""


async def test_a_table_that_is_copied_to_change_it_keeps_the_rows_that_point_at_it(database, next_revision):
    await migrations.upgrade(database)
    key, used = await fill(database)
    next_revision(ADD_COLUMN)
    await migrations.upgrade(database)
    async with Database(database) as opened:
        async with opened.session() as session:
            assert (await session.execute(text("SELECT id, team FROM api_keys"))).all() == [(key.id, "none")]
        assert await KeyRegistry(opened).usage(key.id) == [used]
    await migrations.downgrade(database, "-1")
    async with Database(database) as opened:
        assert await KeyRegistry(opened).usage(key.id) == [used]


async def test_a_migration_that_fails_leaves_nothing_behind(database, next_revision):
    await migrations.upgrade(database)
    before = await tables(database)
    next_revision("    op.create_table('half', sa.Column('id', sa.Integer))\n    op.execute('SELECT nonsense')")
    with pytest.raises(DatabaseError, match="nonsense"):
        await migrations.upgrade(database)
    assert await tables(database) == before


async def test_a_database_of_a_newer_version_is_refused(database):
    await migrations.upgrade(database)
    async with Database(database) as opened, opened.session() as session:
        await session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(DatabaseError, match=r"newer version of gepard .*9999"):
        await migrations.upgrade(database)


START_AT_ONCE = """
import asyncio, os, sys
from sqlalchemy import make_url
from voices import migrations

def child():
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(migrations.upgrade(make_url(sys.argv[1])))
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return pid

sys.exit(any([os.waitpid(pid, 0)[1] for pid in [child() for _ in range(6)]]))
"""


def test_processes_that_start_at_once_on_an_empty_database_all_succeed(database):
    url = database.render_as_string(hide_password=False)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START_AT_ONCE, url], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("database_migrated") == 1


async def test_a_migrator_waits_for_another_one(database):
    """Each holds a lock from before it reads the version until its tables are there."""
    await migrations.upgrade(database)
    async with Database(database, pooled=False) as opened, opened.engine.connect() as connection:
        if database.get_backend_name() == "sqlite":
            await connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({migrations.LOCK})"))
        second = asyncio.create_task(migrations.upgrade(database))
        await asyncio.sleep(0.5)
        assert not second.done()
        await connection.rollback()
        await second
