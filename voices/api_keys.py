"""API keys in the database: made, listed, revoked and found by their hash; and what they used.

A key is 32 random bytes, so one round of sha256 is enough: there is nothing to guess that a slow or salted
hash would protect, and a request can be looked up by its hash. The lookup also makes the comparison safe:
what its timing tells is about the hash of what was sent, which nobody can steer towards a stored one.
"""

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Literal, NewType

from advanced_alchemy.repository import SQLAlchemyAsyncRepository
from sqlalchemy import or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import SQLITE, Database
from shared.errors import SettingsError
from voices import key_lexicon
from voices.models import ApiKeyRow, UsageRow

KeyId = NewType("KeyId", str)
KeySource = Literal["command", "setting"]

KEY_PREFIX = "gp-"
MAX_NAME_CHARS = 100
MIN_KEY_CHARS = 20
MAX_KEY_CHARS = 256

_SECRET_BYTES = 32
_SHOWN_CHARS = len(KEY_PREFIX) + 5


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimits:
    """None: no limit."""

    requests_per_minute: int | None = None
    characters_per_day: int | None = None
    concurrent_streams: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as the rest of the program sees it: everything but the key."""

    id: KeyId
    name: str
    prefix: str
    limits: KeyLimits
    lexicon: str | None = field(default=None, repr=False)
    """As stored: `key_lexicon.load` reads it, and may find it unusable."""
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DayUsage:
    """What a key used on a day (UTC), or used more of."""

    key_id: KeyId
    day: date
    requests: int = 0
    characters: int = 0
    audio_seconds: float = 0.0


class KeyNotFound(SettingsError):
    """No key, or more than one, goes by that id or name."""


class _Keys(SQLAlchemyAsyncRepository[ApiKeyRow]):
    model_type = ApiKeyRow


def hash_key(key: str) -> str:
    """What is stored of a key."""
    return hashlib.sha256(key.encode()).hexdigest()


class KeyRegistry:
    """The tables api_keys and usage. Every method is one transaction and may raise DatabaseError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, name: str, limits: KeyLimits, lexicon: Mapping[str, str] | None = None
    ) -> tuple[ApiKey, str]:
        """Make a key; the key itself is returned here and nowhere else, ever."""
        key = KEY_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        async with self._database.session() as session:
            row = ApiKeyRow(**_new_key(name, key, limits, "command"), lexicon=_stored(lexicon))
            row = await _Keys(session=session).add(row)
            return _api_key(row), key

    async def adopt(self, key: str) -> ApiKey:
        """Make the key of the settings valid; the one they named before is revoked.

        A key that was revoked stays so: the settings of a gateway that starts late must not undo it. Raises
        SettingsError for a key that could be guessed.
        """
        _check_strength(key)
        async with self._database.session() as session:
            # Gateways that start together: the first one inserts, the others find the row.
            insert = _insert(session, ApiKeyRow).values(_new_key("from the settings", key, KeyLimits(), "setting"))
            inserted = await session.execute(
                insert.on_conflict_do_nothing(index_elements=["hash"]).returning(ApiKeyRow.id)
            )
            if (new_id := inserted.scalar_one_or_none()) is not None:
                await session.execute(
                    update(ApiKeyRow)
                    .where(ApiKeyRow.source == "setting", ApiKeyRow.id != new_id, ApiKeyRow.revoked_at.is_(None))
                    .values(revoked_at=datetime.now(UTC))
                )
            return _api_key(await _Keys(session=session).get_one(ApiKeyRow.hash == hash_key(key)))

    async def all(self) -> list[ApiKey]:
        """All keys, revoked ones too, oldest first."""
        async with self._database.session() as session:
            rows = await _Keys(session=session).get_many(
                order_by=[(ApiKeyRow.created_at, False), (ApiKeyRow.id, False)]
            )
            return [_api_key(row) for row in rows]

    async def find(self, key_hash: str) -> ApiKey | None:
        """The key with that hash, revoked or not."""
        async with self._database.session() as session:
            row = await _Keys(session=session).get_one_or_none(ApiKeyRow.hash == key_hash)
            return None if row is None else _api_key(row)

    async def named(self, wanted: str) -> ApiKey:
        """A key by id, revoked or not, or by a name that only one valid key has. Raises KeyNotFound."""
        async with self._database.session() as session:
            return _api_key(await _named(session, wanted))

    async def any_configured(self) -> bool:
        """Whether a key was ever made: revoking the last one does not open the door to everyone."""
        async with self._database.session() as session:
            return await _Keys(session=session).exists()

    async def revoke(self, wanted: str) -> ApiKey:
        """Revoke by id, or by a name that only one valid key has. Raises KeyNotFound."""
        async with self._database.session() as session:
            row = await _named(session, wanted)
            if row.revoked_at is None:
                row.revoked_at = datetime.now(UTC)
            return _api_key(row)

    async def set_lexicon(self, wanted: str, entries: Mapping[str, str] | None) -> ApiKey:
        """Give a key, named as for `revoke`, a lexicon in place of its own; None: none. Raises KeyNotFound."""
        async with self._database.session() as session:
            row = await _named(session, wanted)
            row.lexicon = _stored(entries)
            return _api_key(row)

    async def record(self, used: Iterable[DayUsage], last_used: Iterable[tuple[KeyId, datetime]]) -> None:
        """Add to what keys used, and note when. Never lowers a count and never turns a time back.

        Rows that an operator has deleted by hand are passed over.
        """
        async with self._database.session() as session:
            # In the order of ids: two gateways that write the same rows must not wait for each other in a ring.
            for key_id, when in sorted(last_used):
                await session.execute(
                    update(ApiKeyRow)
                    .where(ApiKeyRow.id == key_id)
                    .where(or_(ApiKeyRow.last_used_at.is_(None), ApiKeyRow.last_used_at < when))
                    .values(last_used_at=when)
                )
            known = set(await session.scalars(select(ApiKeyRow.id)))
            for usage in sorted(used, key=lambda usage: (usage.key_id, usage.day)):
                if usage.key_id not in known:
                    continue
                insert = _insert(session, UsageRow).values(
                    key_id=usage.key_id,
                    day=usage.day,
                    requests=usage.requests,
                    characters=usage.characters,
                    audio_seconds=usage.audio_seconds,
                )
                await session.execute(
                    insert.on_conflict_do_update(
                        index_elements=["key_id", "day"],
                        set_={
                            "requests": UsageRow.requests + insert.excluded.requests,
                            "characters": UsageRow.characters + insert.excluded.characters,
                            "audio_seconds": UsageRow.audio_seconds + insert.excluded.audio_seconds,
                        },
                    )
                )

    async def usage(self, key_id: KeyId) -> list[DayUsage]:
        """What a key used, oldest day first."""
        async with self._database.session() as session:
            rows = await session.scalars(select(UsageRow).where(UsageRow.key_id == key_id).order_by(UsageRow.day))
            return [
                DayUsage(
                    key_id=KeyId(row.key_id),
                    day=row.day,
                    requests=row.requests,
                    characters=row.characters,
                    audio_seconds=row.audio_seconds,
                )
                for row in rows
            ]


async def _named(session: AsyncSession, wanted: str) -> ApiKeyRow:
    keys = _Keys(session=session)
    row = await keys.get_one_or_none(ApiKeyRow.id == wanted)
    if row is not None:
        return row
    rows = await keys.get_many(ApiKeyRow.name == wanted, ApiKeyRow.revoked_at.is_(None))
    if len(rows) > 1:
        ids = ", ".join(row.id for row in rows)
        raise KeyNotFound(f"{len(rows)} keys are named {wanted!r}; name one by its id: {ids}")
    if not rows:
        raise KeyNotFound(f"no valid key has the id or name {wanted!r}; see `gepard keys list`")
    return rows[0]


def _stored(entries: Mapping[str, str] | None) -> str | None:
    return None if entries is None else key_lexicon.dump(entries)


def _insert(session: AsyncSession, table: type[ApiKeyRow | UsageRow]) -> sqlite.Insert | postgresql.Insert:
    """INSERT ... ON CONFLICT, which the two databases share but SQLAlchemy has no common word for."""
    return sqlite.insert(table) if session.get_bind().dialect.name == SQLITE else postgresql.insert(table)


def _new_key(name: str, key: str, limits: KeyLimits, source: KeySource) -> dict[str, object]:
    return {
        "id": f"key_{secrets.token_hex(8)}",
        "name": name,
        "prefix": key[:_SHOWN_CHARS],
        "hash": hash_key(key),
        "source": source,
        "requests_per_minute": limits.requests_per_minute,
        "characters_per_day": limits.characters_per_day,
        "concurrent_streams": limits.concurrent_streams,
        "created_at": datetime.now(UTC),
    }


def _api_key(row: ApiKeyRow) -> ApiKey:
    return ApiKey(
        id=KeyId(row.id),
        name=row.name,
        prefix=row.prefix,
        limits=KeyLimits(
            requests_per_minute=row.requests_per_minute,
            characters_per_day=row.characters_per_day,
            concurrent_streams=row.concurrent_streams,
        ),
        lexicon=row.lexicon,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
    )


def _check_strength(key: str) -> None:
    if not MIN_KEY_CHARS <= len(key) <= MAX_KEY_CHARS or not key.isascii() or not key.isprintable() or " " in key:
        raise SettingsError(
            f"auth.api_key must have {MIN_KEY_CHARS} to {MAX_KEY_CHARS} printable ASCII characters without spaces, "
            "chosen at random; make one with: python3 -c \"import secrets; print('gp-' + secrets.token_urlsafe(32))\""
        )
