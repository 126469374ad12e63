"""The gateway as an ASGI application: its only assembly point."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar
from litestar.di import Provide
from litestar.types import ASGIApp

from gateway.admission import Admission
from gateway.docs_page import docs_assets, openapi_config
from gateway.errors import handle_error
from gateway.health import health, ready, root
from gateway.loopback import LoopbackGuard
from gateway.metrics import Metrics, get_metrics
from gateway.models import list_audio_models, list_models, retrieve_model
from gateway.openapi import complete
from gateway.prepare import JobMaker
from gateway.request_log import RequestLog
from gateway.request_metrics import RequestMetrics
from gateway.speech import SpeechService, create_speech, synthesize
from gateway.voice_routes import list_voices
from shared.broker.connection import connect, warm
from shared.broker.heartbeat import Fleet
from shared.broker.queue import JobQueue
from shared.settings import Settings


def build_app(settings: Settings, *, version: str) -> ASGIApp:
    """The application; it connects to `settings.redis.url` when it starts and watches the workers."""
    redis = connect(settings.redis.url, max_connections=settings.redis.max_connections)
    fleet = Fleet(redis)
    metrics = Metrics(fleet.workers)
    speech = SpeechService(
        settings=settings,
        redis=redis,
        queue=JobQueue(redis),
        fleet=fleet,
        jobs=JobMaker(settings, fleet),
        admission=Admission(settings.limits.max_pending),
        metrics=metrics,
    )

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        await warm(redis, settings.redis.warm_connections)
        await fleet.refresh()
        watching = asyncio.create_task(fleet.watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])
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
            get_metrics,
            docs_assets(),
        ],
        dependencies={
            "speech": Provide(lambda: speech, sync_to_thread=False),
            "fleet": Provide(lambda: fleet, sync_to_thread=False),
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
    guarded: ASGIApp = app if settings.server.allow_remote else LoopbackGuard(app)
    return RequestLog(RequestMetrics(guarded, metrics))
