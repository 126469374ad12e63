"""Clips in a bucket of an S3-compatible store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from shared.errors import SettingsError
from shared.settings import ClipsSettings
from voices.clip_store import name_of, object_name

try:
    from obstore.exceptions import BaseError, NotFoundError
    from obstore.store import S3Store
except ImportError as error:
    raise SettingsError("clips.s3_bucket needs obstore: pip install 'gepard-gateway[s3]'") from error

_REQUEST_TIMEOUT = timedelta(seconds=15)
_RETRY_TIMEOUT = timedelta(seconds=30)
_MAX_RETRIES = 3


class S3ClipStore:
    """Implements voices.clip_store.ClipStore. Nothing is sent before the first call."""

    def __init__(self, settings: ClipsSettings) -> None:
        self._store = S3Store(
            settings.s3_bucket,
            prefix=settings.s3_prefix or None,
            config={
                **({"endpoint": settings.s3_endpoint} if settings.s3_endpoint else {}),
                **({"region": settings.s3_region} if settings.s3_region else {}),
            },
            client_options={"allow_http": settings.s3_endpoint.startswith("http://"), "timeout": _REQUEST_TIMEOUT},
            retry_config={"max_retries": _MAX_RETRIES, "retry_timeout": _RETRY_TIMEOUT},
        )

    async def put(self, sha256: str, flac: bytes) -> None:
        name = object_name(sha256)
        async with _translated():
            await self._store.put_async(name, flac)

    async def get(self, sha256: str) -> bytes | None:
        name = object_name(sha256)
        async with _translated():
            try:
                result = await self._store.get_async(name)
            except (NotFoundError, FileNotFoundError):
                return None
            return bytes(await result.bytes_async())

    async def delete(self, sha256: str) -> None:
        name = object_name(sha256)
        async with _translated():
            try:
                await self._store.delete_async(name)
            except (NotFoundError, FileNotFoundError):
                return

    async def put_before(self, moment: float) -> list[str]:
        found = []
        async with _translated():
            async for batch in self._store.list():
                for entry in batch:
                    name = name_of(entry["path"])
                    if name is not None and entry["last_modified"].timestamp() < moment:
                        found.append(name)
        return found


@asynccontextmanager
async def _translated() -> AsyncIterator[None]:
    try:
        yield
    except BaseError as error:
        # The library's messages hold the request, with its signed headers.
        raise OSError(f"the clip store failed: {type(error).__name__}") from None
