"""Voices and consents in the database. One instance works inside one transaction of its session."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast

from sqlalchemy import ColumnElement, delete, func, or_, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from shared.contracts import ProfileKind
from shared.database import SQLITE
from voices.models import ConsentRow, VoiceRow, VoiceStatusRow
from voices.records import ModelStatus, Owner, StatusName, StoredConsent, StoredVoice

_LOCKS = 6_710_890
"""What PostgreSQL's advisory locks of this module are named by; the migrations have another number."""


class VoiceRepository:
    """The tables voices, voice_status and consents. What changes rows calls `lock` first."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._is_sqlite = session.get_bind().dialect.name == SQLITE

    async def lock(self, *names: str) -> None:
        """Wait for every other transaction that holds one of these names; they are free when this one ends."""
        if self._is_sqlite:
            # There is one writer at a time: this statement makes us that one, before anything is read.
            await self._session.execute(text("UPDATE voices SET owner = owner WHERE false"))
            return
        for name in sorted(names):
            await self._session.execute(
                text("SELECT pg_advisory_xact_lock(:space, hashtext(:name))"), {"space": _LOCKS, "name": name}
            )

    # --- Voices ------------------------------------------------------------------------------------------

    async def add(self, row: VoiceRow, statuses: Sequence[ModelStatus]) -> StoredVoice:
        """Insert a voice."""
        self._session.add(row)
        await self._session.flush()
        self._session.add_all(_status_row(row.id, status) for status in statuses)
        await self._session.flush()
        return _voice(row, statuses)

    async def voices(self, viewer: Owner | None, *, after: str, limit: int) -> list[StoredVoice]:
        """Voices that a viewer may use, by id, behind `after`."""
        query = select(VoiceRow).where(_visible(viewer), VoiceRow.id > after).order_by(VoiceRow.id).limit(limit)
        return await self._with_statuses((await self._session.scalars(query)).all())

    async def get(self, viewer: Owner | None, voice_id: str) -> StoredVoice | None:
        """A voice that a viewer may use."""
        rows = await self._session.scalars(select(VoiceRow).where(VoiceRow.id == voice_id, _visible(viewer)))
        return next(iter(await self._with_statuses(rows.all())), None)

    async def named(self, viewer: Owner | None, name_key: str) -> StoredVoice | None:
        """A voice by its name: the viewer's own, else the oldest public one."""
        query = select(VoiceRow).where(VoiceRow.name_key == name_key, _visible(viewer))
        rows = sorted((await self._session.scalars(query)).all(), key=lambda row: (row.owner != viewer, row.id))
        return next(iter(await self._with_statuses(rows[:1])), None)

    async def num_voices(self, owner: Owner) -> int:
        """How many an owner has."""
        query = select(func.count()).select_from(VoiceRow).where(VoiceRow.owner == owner)
        return int((await self._session.execute(query)).scalar_one())

    async def has_name(self, owner: Owner, name_key: str, *, but: str = "") -> bool:
        """Whether another voice of an owner than `but` has that name."""
        query = select(VoiceRow.id).where(VoiceRow.owner == owner, VoiceRow.name_key == name_key, VoiceRow.id != but)
        return (await self._session.scalars(query)).first() is not None

    async def rename(self, owner: Owner, voice_id: str, name: str, name_key: str) -> bool:
        """False if the owner has no such voice."""
        done = await self._session.execute(
            update(VoiceRow)
            .where(VoiceRow.id == voice_id, VoiceRow.owner == owner)
            .values(name=name, name_key=name_key)
            .returning(VoiceRow.id)
        )
        return done.scalar_one_or_none() is not None

    async def publish(self, voice_id: str, *, is_public: bool) -> bool:
        """False if there is no such voice."""
        done = await self._session.execute(
            update(VoiceRow).where(VoiceRow.id == voice_id).values(is_public=is_public).returning(VoiceRow.id)
        )
        return done.scalar_one_or_none() is not None

    async def delete(self, owner: Owner, voice_id: str) -> bool:
        """False if the owner has no such voice."""
        done = await self._session.execute(
            delete(VoiceRow).where(VoiceRow.id == voice_id, VoiceRow.owner == owner).returning(VoiceRow.id)
        )
        return done.scalar_one_or_none() is not None

    async def record(self, sha256: str, status: ModelStatus) -> int:
        """Note what a model made of a clip, for all its voices; returns how many there are."""
        ids = (await self._session.scalars(select(VoiceRow.id).where(VoiceRow.sha256 == sha256))).all()
        for voice_id in ids:
            row = _status_row(voice_id, status)
            values = {column.name: getattr(row, column.name) for column in VoiceStatusRow.__table__.columns}
            insert = sqlite.insert(VoiceStatusRow) if self._is_sqlite else postgresql.insert(VoiceStatusRow)
            await self._session.execute(
                insert.values(values).on_conflict_do_update(index_elements=["voice_id", "model"], set_=values)
            )
        return len(ids)

    async def num_uses(self, sha256: str) -> tuple[int, int]:
        """How many voices, and how many consents, have a clip."""
        voices = select(func.count()).select_from(VoiceRow).where(VoiceRow.sha256 == sha256)
        consents = select(func.count()).select_from(ConsentRow).where(ConsentRow.sha256 == sha256)
        return (
            int((await self._session.execute(voices)).scalar_one()),
            int((await self._session.execute(consents)).scalar_one()),
        )

    async def clips(self) -> set[str]:
        """The hashes of all clips that voices and consents have."""
        voices = await self._session.scalars(select(VoiceRow.sha256).distinct())
        consents = await self._session.scalars(select(ConsentRow.sha256).distinct())
        return {*voices.all(), *consents.all()}

    async def owned_by(self, owner: Owner) -> list[StoredVoice]:
        """An owner's own voices, public ones of others left out, by id."""
        query = select(VoiceRow).where(VoiceRow.owner == owner).order_by(VoiceRow.id)
        return await self._with_statuses((await self._session.scalars(query)).all())

    async def consents_owned_by(self, owner: Owner) -> list[str]:
        """The ids of an owner's consents."""
        query = select(ConsentRow.id).where(ConsentRow.owner == owner).order_by(ConsentRow.id)
        return list((await self._session.scalars(query)).all())

    # --- Consents ----------------------------------------------------------------------------------------

    async def add_consent(self, row: ConsentRow) -> StoredConsent:
        """Insert a consent."""
        self._session.add(row)
        await self._session.flush()
        return _consent(row)

    async def consents(self, owner: Owner, *, after: str, limit: int) -> list[StoredConsent]:
        """An owner's consents, by id, behind `after`."""
        query = (
            select(ConsentRow)
            .where(ConsentRow.owner == owner, ConsentRow.id > after)
            .order_by(ConsentRow.id)
            .limit(limit)
        )
        return [_consent(row) for row in (await self._session.scalars(query)).all()]

    async def consent(self, owner: Owner, consent_id: str) -> StoredConsent | None:
        """A consent of an owner."""
        query = select(ConsentRow).where(ConsentRow.id == consent_id, ConsentRow.owner == owner)
        row = (await self._session.scalars(query)).one_or_none()
        return None if row is None else _consent(row)

    async def num_consents(self, owner: Owner) -> int:
        """How many an owner has."""
        query = select(func.count()).select_from(ConsentRow).where(ConsentRow.owner == owner)
        return int((await self._session.execute(query)).scalar_one())

    async def rename_consent(self, owner: Owner, consent_id: str, name: str) -> bool:
        """False if the owner has no such consent."""
        done = await self._session.execute(
            update(ConsentRow)
            .where(ConsentRow.id == consent_id, ConsentRow.owner == owner)
            .values(name=name)
            .returning(ConsentRow.id)
        )
        return done.scalar_one_or_none() is not None

    async def is_in_use(self, consent_id: str) -> bool:
        """Whether a voice rests on a consent."""
        query = select(VoiceRow.id).where(VoiceRow.consent_id == consent_id)
        return (await self._session.scalars(query)).first() is not None

    async def delete_consent(self, owner: Owner, consent_id: str) -> str | None:
        """The hash of the deleted consent's recording; None if the owner has no such consent."""
        done = await self._session.execute(
            delete(ConsentRow)
            .where(ConsentRow.id == consent_id, ConsentRow.owner == owner)
            .returning(ConsentRow.sha256)
        )
        return done.scalar_one_or_none()

    async def _with_statuses(self, rows: Sequence[VoiceRow]) -> list[StoredVoice]:
        if not rows:
            return []
        query = select(VoiceStatusRow).where(VoiceStatusRow.voice_id.in_([row.id for row in rows]))
        by_voice: dict[str, list[ModelStatus]] = {row.id: [] for row in rows}
        for status in (await self._session.scalars(query.order_by(VoiceStatusRow.model))).all():
            by_voice[status.voice_id].append(_status(status))
        return [_voice(row, by_voice[row.id]) for row in rows]


def _visible(viewer: Owner | None) -> ColumnElement[bool]:
    return or_(VoiceRow.owner == viewer, VoiceRow.is_public) if viewer is not None else VoiceRow.is_public.is_(True)


def _status_row(voice_id: str, status: ModelStatus) -> VoiceStatusRow:
    return VoiceStatusRow(
        voice_id=voice_id,
        model=status.model,
        revision=status.revision,
        status=status.status,
        kind=status.kind,
        reason=status.reason,
        updated_at=datetime.now(UTC),
    )


def _status(row: VoiceStatusRow) -> ModelStatus:
    return ModelStatus(
        model=row.model,
        revision=row.revision,
        status=cast("StatusName", row.status),
        kind=cast("ProfileKind | None", row.kind),
        reason=row.reason,
    )


def _voice(row: VoiceRow, statuses: Sequence[ModelStatus]) -> StoredVoice:
    return StoredVoice(
        id=row.id,
        owner=Owner(row.owner),
        name=row.name,
        description=row.description,
        language=row.language,
        is_public=row.is_public,
        sha256=row.sha256,
        clip_s=row.clip_s,
        note=row.note,
        consent_id=row.consent_id,
        created_at=row.created_at,
        statuses=tuple(statuses),
    )


def _consent(row: ConsentRow) -> StoredConsent:
    return StoredConsent(id=row.id, name=row.name, language=row.language, created_at=row.created_at)
