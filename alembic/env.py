"""Runs migrations on the connection that voices/migrations.py hands over, inside its transaction."""

from alembic import context
from sqlalchemy import Connection

from voices.models import ApiKeyRow

connection: Connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=ApiKeyRow.metadata,
    # SQLite changes a column or a constraint only by copying the table.
    render_as_batch=True,
)
context.run_migrations()
