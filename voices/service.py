"""The registry of voices: made, found, renamed and deleted, and what models make of them."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime

from redis.exceptions import RedisError

from shared.contracts import EngineInfo
from shared.database import Database
from shared.errors import ClipStoreError, DatabaseError, VoiceRefused
from shared.settings import Settings
from shared.telemetry import get_logger
from voices.aliases import reserved_names
from voices.clips import ClipIntake, TakenClip
from voices.models import VoiceRow
from voices.names import (
    MAX_CONSENT_CHARS,
    MAX_DESCRIPTION_CHARS,
    MAX_NAME_CHARS,
    checked_language,
    checked_name,
    checked_text,
    is_one_line,
    name_key,
)
from voices.profiles import CLIP_UNUSABLE, Profiles
from voices.records import (
    CONSENT_PREFIX,
    VOICE_PREFIX,
    ModelStatus,
    NewVoice,
    Owner,
    StoredVoice,
    looks_like_id,
    new_id,
    profile_kind,
    revision_of,
)
from voices.repository import VoiceRepository
from voices.stored_clips import StoredClips, clip_lock

log = get_logger()


def owner_lock(owner: Owner) -> str:
    """What a transaction locks that changes an owner's names or counts."""
    return f"owner:{owner}"


class VoiceRegistry:
    """Voices of all owners. A viewer None sees only what is public.

    Methods raise VoiceRefused, DatabaseError, ClipStoreError and RedisError.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        clips: StoredClips,
        intake: ClipIntake,
        profiles: Profiles,
        models: Callable[[], Iterable[EngineInfo]],
    ) -> None:
        """`models`: what is served now."""
        self._settings = settings
        self._database = database
        self._clips = clips
        self._intake = intake
        self._profiles = profiles
        self._models = models
        self._background: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """End what runs in the background; a voice that is pending is made when it is first used."""
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._profiles.close()

    async def create(self, owner: Owner, wanted: NewVoice, upload: bytes) -> StoredVoice:
        """Make a voice of an upload. Raises ClipRefused and IntakeBusy, too; then nothing of it is left."""
        name = self._checked_name(wanted.name)
        row = VoiceRow(
            id=new_id(VOICE_PREFIX),
            owner=owner,
            name=name,
            name_key=name_key(name),
            description=checked_text(wanted.description, "description", MAX_DESCRIPTION_CHARS),
            language=checked_language(wanted.language) if wanted.language else None,
            is_public=False,
            consent=self._checked_consent(wanted.consent),
            created_at=datetime.now(UTC),
        )
        # Looked at before the clip is decoded, too: that is the expensive part.
        async with self._database.session() as session:
            await self._check(VoiceRepository(session), row)
        taken = await self._intake.take(upload, max_seconds=self._settings.generation.max_ref_seconds)
        row.sha256, row.clip_s, row.note = taken.clip.sha256, taken.clip.duration_s, taken.note
        infos = [info for info in self._models() if profile_kind(info) is not None]
        try:
            voice = await self._insert(row, taken, infos)
        except BaseException:
            # Shielded: a cancelled request leaves no clip either.
            await asyncio.shield(self._clips.release(taken.clip.sha256))
            raise
        log.info("voice_created", voice_id=voice.id, clip=voice.sha256, clip_s=round(voice.clip_s, 1))
        for info in infos:
            self._start(self._prepare_quietly(voice, info))
        return voice

    async def _insert(self, row: VoiceRow, taken: TakenClip, infos: list[EngineInfo]) -> StoredVoice:
        pending = [ModelStatus(model=info.model, revision=revision_of(info), status="pending") for info in infos]
        async with self._database.session() as session:
            rows = VoiceRepository(session)
            await rows.lock(owner_lock(Owner(row.owner)), clip_lock(row.sha256))
            await self._check(rows, row)
            voice = await rows.add(row, pending)
            await self._clips.keep(taken)
            return voice

    async def _check(self, rows: VoiceRepository, row: VoiceRow) -> None:
        """Whether the owner may have this voice; finds its stored consent."""
        owner = Owner(row.owner)
        if await rows.has_name(owner, row.name_key):
            raise _exists(row.name)
        if await rows.num_voices(owner) >= self._settings.voices.max_per_key:
            raise VoiceRefused(
                "too_many_voices",
                f"There are {self._settings.voices.max_per_key} voices already, the most there may be; delete one.",
            )
        row.consent_id = None
        if looks_like_id(row.consent, CONSENT_PREFIX) and await rows.consent(owner, row.consent) is not None:
            row.consent_id = row.consent
        elif self._settings.voices.require_consent:
            raise VoiceRefused(
                "consent_not_found",
                "'consent' must be the id of a recorded consent; make one at /v1/audio/voice_consents.",
                param="consent",
            )

    async def page(self, viewer: Owner | None, *, after: str, limit: int) -> list[StoredVoice]:
        """Voices that a viewer may use, in the order they were made, behind the id `after`."""
        async with self._database.session() as session:
            return await VoiceRepository(session).voices(viewer, after=after, limit=limit)

    async def get(self, viewer: Owner | None, voice_id: str) -> StoredVoice:
        """A voice that a viewer may use, by id."""
        voice = None
        # What has another form is not asked for: not every text may be compared in every database.
        if looks_like_id(voice_id, VOICE_PREFIX):
            async with self._database.session() as session:
                voice = await VoiceRepository(session).get(viewer, voice_id)
        if voice is None:
            raise _not_found(voice_id)
        return voice

    async def find(self, viewer: Owner | None, wanted: str) -> StoredVoice | None:
        """A voice by id or name; the viewer's own before public ones."""
        wanted = wanted.strip()
        if len(wanted) > MAX_NAME_CHARS or not is_one_line(wanted):
            return None
        async with self._database.session() as session:
            rows = VoiceRepository(session)
            if looks_like_id(wanted, VOICE_PREFIX):
                return await rows.get(viewer, wanted)
            return await rows.named(viewer, name_key(wanted))

    async def rename(self, owner: Owner, voice_id: str, name: str) -> StoredVoice:
        """Give an owner's voice another name."""
        name = self._checked_name(name)
        await self._owned(owner, voice_id)
        async with self._database.session() as session:
            rows = VoiceRepository(session)
            await rows.lock(owner_lock(owner))
            if await rows.has_name(owner, name_key(name), but=voice_id):
                raise _exists(name)
            if not await rows.rename(owner, voice_id, name, name_key(name)):
                raise _not_found(voice_id)
        return await self.get(owner, voice_id)

    async def delete(self, owner: Owner, voice_id: str) -> None:
        """Delete an owner's voice with its clip and all that was made of it."""
        voice = await self._owned(owner, voice_id)
        # Without Redis nothing is deleted, rather than half.
        await self._clips.check()
        async with self._database.session() as session:
            rows = VoiceRepository(session)
            await rows.lock(clip_lock(voice.sha256))
            if not await rows.delete(owner, voice_id):
                raise _not_found(voice_id)
        await self._clips.release(voice.sha256)
        log.info("voice_deleted", voice_id=voice_id, clip=voice.sha256)

    async def clip_file(self, owner: Owner, voice_id: str) -> bytes:
        """The clip of an owner's voice, as FLAC."""
        voice = await self._owned(owner, voice_id)
        data = await self._clips.file(voice.sha256)
        if data is None:
            raise _not_found(voice_id)
        return data

    async def prepare(self, voice: StoredVoice, info: EngineInfo) -> None:
        """Have a model's profile of a voice, waiting for it within bounds. Says why it failed, if it did."""
        known = voice.status_of(info)
        if known.status == "failed":
            raise VoiceRefused(CLIP_UNUSABLE, _unusable(voice, info, known.reason or ""))
        try:
            kind = await self._profiles.ensure(voice.sha256, info)
        except VoiceRefused as refused:
            if refused.code != CLIP_UNUSABLE:
                raise
            failed = ModelStatus(model=info.model, revision=revision_of(info), status="failed", reason=refused.message)
            await self._record(voice, failed)
            raise VoiceRefused(CLIP_UNUSABLE, _unusable(voice, info, refused.message)) from refused
        if known.status != "ready":
            ready = ModelStatus(model=info.model, revision=revision_of(info), status="ready", kind=kind)
            await self._record(voice, ready)

    async def _record(self, voice: StoredVoice, status: ModelStatus) -> None:
        async with self._database.session() as session:
            rows = VoiceRepository(session)
            await rows.lock(clip_lock(voice.sha256))
            await rows.record(voice.sha256, status)
        log.info("voice_status", voice_id=voice.id, model=status.model, status=status.status, reason=status.reason)

    async def _prepare_quietly(self, voice: StoredVoice, info: EngineInfo) -> None:
        try:
            await self.prepare(voice, info)
        except (VoiceRefused, DatabaseError, ClipStoreError, RedisError, OSError) as error:
            # It stays pending, or has failed; whoever speaks with it tries again or hears why.
            log.warning("voice_not_prepared", voice_id=voice.id, model=info.model, error=type(error).__name__)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _owned(self, owner: Owner, voice_id: str) -> StoredVoice:
        voice = await self.get(owner, voice_id)
        if voice.owner != owner:
            raise _not_found(voice_id)
        return voice

    def _checked_name(self, name: str) -> str:
        return checked_name(name, taken=reserved_names(self._models(), self._settings.voice_aliases))

    def _checked_consent(self, consent: str) -> str:
        consent = checked_text(consent, "consent", MAX_CONSENT_CHARS)
        if not consent:
            raise VoiceRefused(
                "missing_required_parameter",
                "Missing required parameter: 'consent': the id of a recorded consent, or a statement.",
                param="consent",
            )
        return consent


def _unusable(voice: StoredVoice, info: EngineInfo, reason: str) -> str:
    return f"The model '{info.model}' cannot speak with the voice '{voice.name}': {reason}."


def _exists(name: str) -> VoiceRefused:
    return VoiceRefused("voice_exists", f"There is a voice named '{name}' already; delete or rename it.", param="name")


def _not_found(voice_id: str) -> VoiceRefused:
    return VoiceRefused("not_found", f"There is no voice '{voice_id[:64]}' of yours.")
