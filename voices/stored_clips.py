"""Clips that rows of the registry point at: kept while one does, gone with the last one.

A clip is written in the transaction that adds its row, and removed in one that has seen no row; both hold the
clip's lock. A process killed in between leaves at most a file without a row, never a row without its file;
`sweep` removes such files.
"""

import time

from sqlalchemy.ext.asyncio import AsyncSession

from shared.clip import Clip
from shared.database import Database
from shared.errors import ClipStoreError
from voices.clip_store import ClipStore
from voices.clips import TakenClip, load_clip
from voices.profile_cache import ProfileCache
from voices.repository import VoiceRepository


def clip_lock(sha256: str) -> str:
    """What a transaction locks that adds or removes a clip."""
    return f"clip:{sha256}"


class StoredClips:
    """The clip store, with what is derived from clips in Redis. Methods raise ClipStoreError."""

    def __init__(self, database: Database, store: ClipStore, cache: ProfileCache | None) -> None:
        """`cache` None: without Redis, where nothing of a clip then lives."""
        self._database = database
        self._store = store
        self._cache = cache

    async def keep(self, taken: TakenClip) -> None:
        """Write a clip, inside the transaction that adds its row."""
        try:
            await self._store.put(taken.clip.sha256, taken.flac)
        except OSError as error:
            raise _unusable(error) from error

    async def load(self, sha256: str) -> Clip | None:
        """A clip; None if it is not there."""
        try:
            return await load_clip(self._store, sha256)
        except (OSError, ValueError) as error:
            raise _unusable(error) from error

    async def file(self, sha256: str) -> bytes | None:
        """A clip as FLAC; None if it is not there."""
        try:
            return await self._store.get(sha256)
        except OSError as error:
            raise _unusable(error) from error

    async def check(self) -> None:
        """Raises RedisError when `release` could not remove what is in Redis."""
        if self._cache is not None:
            await self._cache.ping()

    async def release(self, sha256: str) -> None:
        """Remove what no row needs any more: the file, the clip and its profiles in Redis."""
        async with self._database.session() as session:
            await self._release(session, sha256)

    async def sweep(self, *, older_than_s: float) -> int:
        """Remove the clips that no row needs, unless they were put within `older_than_s`; returns how many.

        Safe while gateways run: each is looked at once more under its lock.
        """
        try:
            names = await self._store.put_before(time.time() - older_than_s)
        except OSError as error:
            raise _unusable(error) from error
        async with self._database.session() as session:
            needed = await VoiceRepository(session).clips()
        orphans = [name for name in names if name not in needed]
        for name in orphans:
            await self.release(name)
        return len(orphans)

    async def _release(self, session: AsyncSession, sha256: str) -> None:
        rows = VoiceRepository(session)
        await rows.lock(clip_lock(sha256))
        num_voices, num_consents = await rows.num_uses(sha256)
        if not num_voices and self._cache is not None:
            await self._cache.drop(sha256)
        if not num_voices and not num_consents:
            try:
                await self._store.delete(sha256)
            except OSError as error:
                raise _unusable(error) from error


def _unusable(error: Exception) -> ClipStoreError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return ClipStoreError(f"the clip store cannot be used: {reason}")
