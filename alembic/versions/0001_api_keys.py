"""Keys and their usage."""

import sqlalchemy as sa
from advanced_alchemy.types import DateTimeUTC
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("prefix", sa.String(16), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("requests_per_minute", sa.Integer()),
        sa.Column("characters_per_day", sa.BigInteger()),
        sa.Column("concurrent_streams", sa.Integer()),
        sa.Column("created_at", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("last_used_at", DateTimeUTC(timezone=True)),
        sa.Column("revoked_at", DateTimeUTC(timezone=True)),
        sa.CheckConstraint("requests_per_minute > 0", name=op.f("ck_api_keys_requests_per_minute_positive")),
        sa.CheckConstraint("characters_per_day > 0", name=op.f("ck_api_keys_characters_per_day_positive")),
        sa.CheckConstraint("concurrent_streams > 0", name=op.f("ck_api_keys_concurrent_streams_positive")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("hash", name=op.f("uq_api_keys_hash")),
    )
    op.create_table(
        "usage",
        sa.Column("key_id", sa.String(32), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("characters", sa.BigInteger(), nullable=False),
        sa.Column("audio_seconds", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], name=op.f("fk_usage_key_id_api_keys"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key_id", "day", name=op.f("pk_usage")),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("usage")
    op.drop_table("api_keys")
