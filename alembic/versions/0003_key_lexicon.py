"""The lexicon of a key."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("api_keys", sa.Column("lexicon", sa.Text()))


def downgrade() -> None:
    """Drop the column."""
    # Not in a batch: SQLite knows DROP COLUMN since 3.35, and a copy of the table would lose its CHECKs.
    op.drop_column("api_keys", "lexicon")
