"""What an operator does with all voices: remove what no row needs, and what revoked keys have left."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import click
from msgspec.structs import replace
from redis.exceptions import RedisError

from cli.options import overridden
from shared.broker.connection import connect
from shared.database import Database, database_url
from shared.errors import SettingsError
from shared.settings import Settings
from shared.telemetry import configure_logging
from voices import migrations
from voices.api_keys import KeyRegistry
from voices.clip_store import open_store
from voices.profile_cache import ProfileCache
from voices.records import Owner
from voices.repository import VoiceRepository
from voices.stored_clips import StoredClips, clip_lock

T = TypeVar("T")

_HOUR_S = 3600.0

_DATA_DIR = click.option("--data-dir", help="Folder of the SQLite database and the clips (default: data_dir).")


@click.command()
@click.option("--older-than-hours", type=click.FloatRange(min=0), default=1.0, show_default=True)
@_DATA_DIR
@click.pass_obj
def sweep(settings: Settings, older_than_hours: float, data_dir: str | None) -> None:
    """Remove clips that belong to no voice and no consent, as a killed gateway may leave.

    For the operator: works on the database and the clip store; gateways may run.
    """

    async def work(_: Database, clips: StoredClips) -> int:
        return await clips.sweep(older_than_s=older_than_hours * _HOUR_S)

    number = _with_clips(overridden(settings, data_dir=data_dir), work)
    click.echo(f"Removed {number} {'clip' if number == 1 else 'clips'}.", err=True)


@click.command()
@click.argument("key", metavar="KEY_ID_OR_NAME")
@click.option("--delete", is_flag=True, help="Delete them, with their clips and all that was made of them.")
@_DATA_DIR
@click.pass_obj
def owned(settings: Settings, key: str, delete: bool, data_dir: str | None) -> None:
    """List, or delete, the voices and consents of a key, which may be revoked (by its id).

    For the operator: works on the database and the clip store; gateways may run.
    """

    async def work(database: Database, clips: StoredClips) -> list[str]:
        owner = Owner((await KeyRegistry(database).named(key)).id)
        return await _owned(database, clips, owner, delete=delete)

    for line in _with_clips(overridden(settings, data_dir=data_dir), work):
        click.echo(f"{'Deleted ' if delete else ''}{line}")


async def _owned(database: Database, clips: StoredClips, owner: Owner, *, delete: bool) -> list[str]:
    async with database.session() as session:
        rows = VoiceRepository(session)
        voices, consents = await rows.owned_by(owner), await rows.consents_owned_by(owner)
    lines = [f"{voice.id} {voice.name}{' (public)' if voice.is_public else ''}" for voice in voices]
    lines += [f"{consent} (a consent)" for consent in consents]
    if not delete:
        return lines
    await clips.check()
    # Voices first: they rest on the consents.
    for voice in voices:
        async with database.session() as session:
            rows = VoiceRepository(session)
            await rows.lock(clip_lock(voice.sha256))
            await rows.delete(owner, voice.id)
        await clips.release(voice.sha256)
    for consent in consents:
        async with database.session() as session:
            rows = VoiceRepository(session)
            await rows.lock()
            sha256 = await rows.delete_consent(owner, consent)
        if sha256 is not None:
            await clips.release(sha256)
    return lines


def _with_clips(settings: Settings, work: Callable[[Database, StoredClips], Awaitable[T]]) -> T:
    configure_logging(replace(settings.log, level="warning"), process="voices")

    async def run() -> T:
        url = database_url(settings)
        await migrations.upgrade(url)
        async with Database(url) as database, _cache(settings) as cache:
            try:
                return await work(database, StoredClips(database, open_store(settings), cache))
            except RedisError as error:
                raise SettingsError(f"Redis cannot be used: {error}") from error

    return asyncio.run(run())


@asynccontextmanager
async def _cache(settings: Settings) -> AsyncIterator[ProfileCache | None]:
    """What models made of clips, in the Redis that is named; else it expires by itself."""
    if not settings.redis.url:
        yield None
        return
    redis = connect(settings.redis.url, max_connections=2)
    try:
        yield ProfileCache(redis)
    finally:
        await redis.aclose(close_connection_pool=True)
