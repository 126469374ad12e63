"""Tables of the registry. A change here needs a migration in alembic/versions; a test compares the two."""

from datetime import date, datetime

from advanced_alchemy.base import DefaultBase
from advanced_alchemy.types import DateTimeUTC
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Date,
    Float,
    ForeignKey,
    Integer,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column


class ApiKeyRow(DefaultBase):
    """A key: who may ask for speech, and how much of it. Revoked rows stay, for their usage."""

    __tablename__ = "api_keys"
    __table_args__ = (
        CheckConstraint("requests_per_minute > 0", name="requests_per_minute_positive"),
        CheckConstraint("characters_per_day > 0", name="characters_per_day_positive"),
        CheckConstraint("concurrent_streams > 0", name="concurrent_streams_positive"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(100))
    prefix: Mapped[str] = mapped_column(String(16))
    """The key's first characters, to recognise it by."""
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    """sha256, hexadecimal."""
    source: Mapped[str] = mapped_column(String(16))
    """`command` or `setting`: where it was made."""
    requests_per_minute: Mapped[int | None] = mapped_column(Integer)
    characters_per_day: Mapped[int | None] = mapped_column(BigInteger)
    concurrent_streams: Mapped[int | None] = mapped_column(Integer)
    lexicon: Mapped[str | None] = mapped_column(Text)
    """As voices/key_lexicon.py writes it."""
    created_at: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
    last_used_at: Mapped[datetime | None] = mapped_column(DateTimeUTC(timezone=True))
    revoked_at: Mapped[datetime | None] = mapped_column(DateTimeUTC(timezone=True))


class UsageRow(DefaultBase):
    """What a key used on one day (UTC): counts only, nothing of the texts."""

    __tablename__ = "usage"

    key_id: Mapped[str] = mapped_column(String(32), ForeignKey("api_keys.id", ondelete="CASCADE"), primary_key=True)
    day: Mapped[date] = mapped_column(Date, primary_key=True)
    requests: Mapped[int] = mapped_column(BigInteger)
    characters: Mapped[int] = mapped_column(BigInteger)
    audio_seconds: Mapped[float] = mapped_column(Float)


class ConsentRow(DefaultBase):
    """A recording in which a speaker agrees to a voice. `owner`: a key's id, or voices.service.ANONYMOUS."""

    __tablename__ = "consents"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """In the order of creation."""
    owner: Mapped[str] = mapped_column(String(32), index=True)
    name: Mapped[str] = mapped_column(String(100))
    language: Mapped[str] = mapped_column(String(35))
    sha256: Mapped[str] = mapped_column(String(64), index=True)
    """The recording in the clip store."""
    created_at: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))


class VoiceRow(DefaultBase):
    """A voice: a clip and what it is called. `owner` as in ConsentRow."""

    __tablename__ = "voices"
    __table_args__ = (UniqueConstraint("owner", "name_key"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """In the order of creation."""
    owner: Mapped[str] = mapped_column(String(32))
    name: Mapped[str] = mapped_column(String(100))
    name_key: Mapped[str] = mapped_column(String(300))
    """The name as it is compared: `Ann` and `ann` are one name."""
    description: Mapped[str] = mapped_column(String(1000))
    language: Mapped[str | None] = mapped_column(String(35))
    is_public: Mapped[bool] = mapped_column(Boolean)
    sha256: Mapped[str] = mapped_column(String(64), index=True)
    """The clip in the clip store."""
    clip_s: Mapped[float] = mapped_column(Float)
    note: Mapped[str | None] = mapped_column(String(200))
    """What was done to the upload."""
    consent: Mapped[str] = mapped_column(String(500))
    """What the uploader sent as consent."""
    consent_id: Mapped[str | None] = mapped_column(String(32), ForeignKey("consents.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))


class VoiceStatusRow(DefaultBase):
    """What one model made of a voice's clip."""

    __tablename__ = "voice_status"

    voice_id: Mapped[str] = mapped_column(String(32), ForeignKey("voices.id", ondelete="CASCADE"), primary_key=True)
    model: Mapped[str] = mapped_column(String(100), primary_key=True)
    revision: Mapped[str] = mapped_column(String(200))
    """Of model and compressor: another one has not tried yet."""
    status: Mapped[str] = mapped_column(String(16))
    """`pending`, `ready` or `failed`."""
    kind: Mapped[str | None] = mapped_column(String(16))
    """`matched` or `cloned`, when ready."""
    reason: Mapped[str | None] = mapped_column(String(500))
    """Why it failed."""
    updated_at: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
