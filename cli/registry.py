"""Prepares the registry's database before a process uses it."""

from shared.database import Database, database_url
from shared.settings import Settings
from shared.telemetry import get_logger
from voices import migrations
from voices.api_keys import KeyRegistry

log = get_logger()


async def prepare(settings: Settings) -> bool:
    """Migrate the database and add the key of the settings; say whether there are keys.

    Several processes may do this at once. Raises SettingsError or DatabaseError.
    """
    url = database_url(settings)
    await migrations.upgrade(url)
    async with Database(url) as database:
        registry = KeyRegistry(database)
        if settings.auth.api_key:
            key = await registry.adopt(settings.auth.api_key)
            if key.revoked_at is not None:
                log.warning("key_of_the_settings_is_revoked", key_id=key.id)
        return await registry.any_configured()
