"""Recorded consents: who agreed to have a voice made, in which language, and when."""

import asyncio
from datetime import UTC, datetime

from shared.database import Database
from shared.errors import VoiceRefused
from shared.settings import Settings
from voices.clips import ClipIntake
from voices.models import ConsentRow
from voices.names import checked_language, checked_name
from voices.records import CONSENT_PREFIX, Owner, StoredConsent, looks_like_id, new_id
from voices.repository import VoiceRepository
from voices.service import owner_lock
from voices.stored_clips import StoredClips, clip_lock


class ConsentRegistry:
    """Consents of all owners. Methods raise VoiceRefused, DatabaseError, ClipStoreError and RedisError."""

    def __init__(self, settings: Settings, database: Database, clips: StoredClips, intake: ClipIntake) -> None:
        self._max_per_owner = settings.voices.max_consents_per_key
        self._database = database
        self._clips = clips
        self._intake = intake

    async def create(self, owner: Owner, name: str, language: str, recording: bytes) -> StoredConsent:
        """Keep a recording, whole. Raises ClipRefused and IntakeBusy, too; then nothing of it is left."""
        row = ConsentRow(
            id=new_id(CONSENT_PREFIX),
            owner=owner,
            name=checked_name(name),
            language=checked_language(language),
            created_at=datetime.now(UTC),
        )
        async with self._database.session() as session:
            await self._check(VoiceRepository(session), owner)
        taken = await self._intake.take(recording, max_seconds=None)
        row.sha256 = taken.clip.sha256
        try:
            async with self._database.session() as session:
                rows = VoiceRepository(session)
                await rows.lock(owner_lock(owner), clip_lock(row.sha256))
                await self._check(rows, owner)
                consent = await rows.add_consent(row)
                await self._clips.keep(taken)
                return consent
        except BaseException:
            await asyncio.shield(self._clips.release(taken.clip.sha256))
            raise

    async def page(self, owner: Owner, *, after: str, limit: int) -> list[StoredConsent]:
        """An owner's consents in the order they were made, behind the id `after`."""
        async with self._database.session() as session:
            return await VoiceRepository(session).consents(owner, after=after, limit=limit)

    async def get(self, owner: Owner, consent_id: str) -> StoredConsent:
        """A consent of an owner."""
        consent = None
        if looks_like_id(consent_id, CONSENT_PREFIX):
            async with self._database.session() as session:
                consent = await VoiceRepository(session).consent(owner, consent_id)
        if consent is None:
            raise _not_found(consent_id)
        return consent

    async def rename(self, owner: Owner, consent_id: str, name: str) -> StoredConsent:
        """Give a consent another label."""
        name = checked_name(name)
        await self.get(owner, consent_id)
        async with self._database.session() as session:
            rows = VoiceRepository(session)
            await rows.lock(owner_lock(owner))
            if not await rows.rename_consent(owner, consent_id, name):
                raise _not_found(consent_id)
        return await self.get(owner, consent_id)

    async def delete(self, owner: Owner, consent_id: str) -> None:
        """Delete a consent with its recording. A voice that rests on it must go first."""
        await self.get(owner, consent_id)
        await self._clips.check()
        async with self._database.session() as session:
            rows = VoiceRepository(session)
            await rows.lock(owner_lock(owner))
            if await rows.is_in_use(consent_id):
                raise VoiceRefused("consent_in_use", "A voice rests on this consent; delete the voice first.")
            sha256 = await rows.delete_consent(owner, consent_id)
        if sha256 is None:
            raise _not_found(consent_id)
        await self._clips.release(sha256)

    async def _check(self, rows: VoiceRepository, owner: Owner) -> None:
        if await rows.num_consents(owner) >= self._max_per_owner:
            raise VoiceRefused(
                "too_many_consents",
                f"There are {self._max_per_owner} consents already, the most there may be; delete one.",
            )


def _not_found(consent_id: str) -> VoiceRefused:
    return VoiceRefused("not_found", f"There is no consent '{consent_id[:64]}' of yours.")
