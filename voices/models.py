"""Tables of the registry. A change here needs a migration in alembic/versions; a test compares the two."""

from datetime import date, datetime

from advanced_alchemy.base import DefaultBase
from advanced_alchemy.types import DateTimeUTC
from sqlalchemy import BigInteger, CheckConstraint, Date, Float, ForeignKey, Integer, String
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
