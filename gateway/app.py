"""The gateway as an ASGI application: its only assembly point."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar
from litestar.di import Provide
from litestar.types import ASGIApp

from gateway.access import AccessGuard
from gateway.admission import Admission
from gateway.docs_page import docs_assets, openapi_config
from gateway.errors import handle_error
from gateway.health import health, ready, root
from gateway.keys import Keys
from gateway.limits import Limits
from gateway.models import list_audio_models, list_models, retrieve_model
from gateway.openapi import complete
from gateway.prepare import JobMaker
from gateway.request_log import RequestLog
from gateway.speech import SpeechService, create_speech, synthesize
from gateway.usage import UsageLog
from gateway.voice_routes import list_voices
from shared.broker.connection import connect, warm
from shared.broker.heartbeat import Fleet
from shared.broker.queue import JobQueue
from shared.database import Database, database_url
from shared.settings import Settings
from voices.api_keys import KeyRegistry


def build_app(settings: Settings, *, version: str) -> ASGIApp:
    """The application; it connects to `settings.redis.url` when it starts and watches the workers.

    The database must have been migrated. Raises SettingsError for a database URL that cannot be used.
    """
    redis = connect(settings.redis.url, max_connections=settings.redis.max_connections)
    fleet = Fleet(redis)
    database = Database(database_url(settings))
    registry = KeyRegistry(database)
    usage = UsageLog(registry)
    keys = Keys(registry, usage)
    limits = Limits(redis, usage, settings.limits)
    speech = SpeechService(
        settings=settings,
        redis=redis,
        queue=JobQueue(redis),
        fleet=fleet,
        jobs=JobMaker(settings, fleet),
        admission=Admission(settings.limits.max_pending),
        limits=limits,
    )

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        await warm(redis, settings.redis.warm_connections)
        await fleet.refresh()
        await keys.load()
        background = [asyncio.create_task(work) for work in (fleet.watch(), limits.keep_leases(), usage.run())]
        try:
            yield
        finally:
            for task in background:
                task.cancel()
            await asyncio.wait(background)
            await usage.flush()
            await database.close()
            await redis.aclose(close_connection_pool=True)

    app = Litestar(
        route_handlers=[
            create_speech,
            synthesize,
            list_models,
            list_audio_models,
            retrieve_model,
            list_voices,
            health,
            ready,
            root,
            docs_assets(),
        ],
        dependencies={
            "speech": Provide(lambda: speech, sync_to_thread=False),
            "fleet": Provide(lambda: fleet, sync_to_thread=False),
            "settings": Provide(lambda: settings, sync_to_thread=False),
        },
        exception_handlers={Exception: handle_error},
        lifespan=[lifespan],
        request_max_body_size=settings.limits.max_body_bytes,
        openapi_config=openapi_config(version),
        # Errors are logged by the exception handler and the request log, in one place.
        logging_config=None,
    )
    complete(app.openapi_schema)
    return RequestLog(AccessGuard(app, keys, settings))
