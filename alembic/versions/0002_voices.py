"""Voices, what models make of them, and consents."""

import sqlalchemy as sa
from advanced_alchemy.types import DateTimeUTC
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "consents",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("language", sa.String(35), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("created_at", DateTimeUTC(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_consents")),
    )
    op.create_index(op.f("ix_consents_owner"), "consents", ["owner"])
    op.create_index(op.f("ix_consents_sha256"), "consents", ["sha256"])
    op.create_table(
        "voices",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("name_key", sa.String(300), nullable=False),
        sa.Column("description", sa.String(1000), nullable=False),
        sa.Column("language", sa.String(35)),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("clip_s", sa.Float(), nullable=False),
        sa.Column("note", sa.String(200)),
        sa.Column("consent", sa.String(500), nullable=False),
        sa.Column("consent_id", sa.String(32)),
        sa.Column("created_at", DateTimeUTC(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["consent_id"], ["consents.id"], name=op.f("fk_voices_consent_id_consents")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_voices")),
        sa.UniqueConstraint("owner", "name_key", name=op.f("uq_voices_owner")),
    )
    op.create_index(op.f("ix_voices_sha256"), "voices", ["sha256"])
    op.create_index(op.f("ix_voices_consent_id"), "voices", ["consent_id"])
    op.create_table(
        "voice_status",
        sa.Column("voice_id", sa.String(32), nullable=False),
        sa.Column("model", sa.String(100), nullable=False),
        sa.Column("revision", sa.String(200), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("kind", sa.String(16)),
        sa.Column("reason", sa.String(500)),
        sa.Column("updated_at", DateTimeUTC(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["voice_id"], ["voices.id"], name=op.f("fk_voice_status_voice_id_voices"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("voice_id", "model", name=op.f("pk_voice_status")),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("voice_status")
    op.drop_table("voices")
    op.drop_table("consents")
