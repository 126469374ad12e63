"""Is it alive, and can it speak?"""

from litestar import get
from litestar.di import NamedDependency

from gateway.drain import Drain
from gateway.errors import ApiError
from gateway.schemas import Status
from shared.broker.heartbeat import Fleet


@get("/health", operation_id="health", tags=["Service"])
async def health() -> Status:
    """Say that the gateway's process is alive."""
    return Status(status="ok")


@get("/ready", operation_id="ready", tags=["Service"])
async def ready(fleet: NamedDependency[Fleet], drain: NamedDependency[Drain]) -> Status:
    """Say whether a request for speech would be answered: a warm worker beats and takes jobs, and we stay."""
    if drain.begun:
        raise ApiError("model_unavailable", "This gateway is being stopped.")
    if not any(worker.accepting for worker in fleet.workers()):
        raise ApiError("model_unavailable", "No warm worker answers.")
    return Status(status="ready")


@get("/v1", operation_id="root", tags=["Service"])
async def root() -> Status:
    """Answer clients that warm up their connection."""
    return Status(status="ok")
