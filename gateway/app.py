"""The gateway as an ASGI application: its only assembly point."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.types import ASGIApp

from gateway.access import AccessGuard
from gateway.admission import Admission
from gateway.consent_routes import CONSENT_ROUTES
from gateway.docs_page import docs_assets, openapi_config
from gateway.drain import ConnectionCloser, Drain
from gateway.errors import handle_error
from gateway.form import FORM_OVERHEAD_BYTES
from gateway.health import health, ready, root
from gateway.key_lexicons import KeyLexicons
from gateway.keys import Keys
from gateway.limits import Limits
from gateway.metrics import Metrics, get_metrics
from gateway.models import list_audio_models, list_models, retrieve_model
from gateway.openapi import complete
from gateway.prepare import JobMaker
from gateway.preview_routes import PREVIEW_ROUTES
from gateway.registry import build_registry
from gateway.request_log import RequestLog
from gateway.request_metrics import RequestMetrics
from gateway.speech import SpeechService, create_speech, synthesize
from gateway.usage import UsageLog
from gateway.voice_routes import VOICE_ROUTES
from shared.broker.connection import connect, warm
from shared.broker.heartbeat import Fleet
from shared.broker.queue import JobQueue
from shared.database import Database, database_url
from shared.settings import Settings
from voices.api_keys import KeyRegistry


def build_app(settings: Settings, *, version: str, drain: Drain | None = None) -> ASGIApp:
    """The application; it connects to `settings.redis.url` when it starts and watches the workers.

    `drain`: set by whoever stops the server.

    The database must have been migrated. Raises SettingsError for a database URL that cannot be used.
    """
    drain = Drain() if drain is None else drain
    redis = connect(settings.redis.url, max_connections=settings.redis.max_connections)
    fleet = Fleet(redis)
    database = Database(database_url(settings))
    key_registry = KeyRegistry(database)
    usage = UsageLog(key_registry)
    keys = Keys(key_registry, usage)
    limits = Limits(redis, usage, settings.limits)
    queue = JobQueue(redis)
    registry = build_registry(settings, database, redis, queue, fleet)
    # Each holds its whole file in memory.
    uploads = Admission(
        settings.clips.max_decoders + settings.clips.max_waiting, "Too many clips are being uploaded; try again later."
    )
    max_form_bytes = settings.clips.max_upload_bytes + FORM_OVERHEAD_BYTES
    metrics = Metrics(fleet.workers)
    speech = SpeechService(
        settings=settings,
        redis=redis,
        queue=queue,
        fleet=fleet,
        jobs=JobMaker(settings, fleet, registry.speakers),
        lexicons=KeyLexicons(settings.limits.max_lexicon_entries),
        admission=Admission(settings.limits.max_pending),
        metrics=metrics,
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
            await registry.voices.close()
            await database.close()
            await redis.aclose(close_connection_pool=True)

    app = Litestar(
        route_handlers=[
            create_speech,
            synthesize,
            list_models,
            list_audio_models,
            retrieve_model,
            Router(
                "/",
                route_handlers=[*VOICE_ROUTES, *PREVIEW_ROUTES, *CONSENT_ROUTES],
                request_max_body_size=max_form_bytes,
            ),
            health,
            ready,
            root,
            get_metrics,
            docs_assets(),
        ],
        dependencies={
            "speech": Provide(lambda: speech, sync_to_thread=False),
            "fleet": Provide(lambda: fleet, sync_to_thread=False),
            "drain": Provide(lambda: drain, sync_to_thread=False),
            "uploads": Provide(lambda: uploads, sync_to_thread=False),
            "voices": Provide(lambda: registry.voices, sync_to_thread=False),
            "consents": Provide(lambda: registry.consents, sync_to_thread=False),
            "cache": Provide(lambda: registry.cache, sync_to_thread=False),
            "settings": Provide(lambda: settings, sync_to_thread=False),
            "metrics": Provide(lambda: metrics, sync_to_thread=False),
        },
        exception_handlers={Exception: handle_error},
        lifespan=[lifespan],
        request_max_body_size=settings.limits.max_body_bytes,
        openapi_config=openapi_config(version),
        # Errors are logged by the exception handler and the request log, in one place.
        logging_config=None,
    )
    complete(app.openapi_schema)
    return ConnectionCloser(RequestLog(RequestMetrics(AccessGuard(app, keys, settings), metrics)), drain)
