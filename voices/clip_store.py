"""Where clips are kept: FLAC files named by the SHA-256 of the clip they hold, never by what a user typed."""

import asyncio
import os
import re
import secrets
from pathlib import Path
from typing import Protocol

from shared.settings import Settings

_SHA256 = re.compile(r"[0-9a-f]{64}")
_DRAFT = ".{}.tmp"


class ClipStore(Protocol):
    """Keeps clips by name. A clip never changes, so putting it again is harmless.

    Every method raises ValueError for what is not a name, OSError when the store cannot be used.
    """

    async def put(self, sha256: str, flac: bytes) -> None:
        """Keep a clip; it survives a crash once this returns."""
        ...

    async def get(self, sha256: str) -> bytes | None:
        """A clip; None if it is not there."""
        ...

    async def delete(self, sha256: str) -> None:
        """Remove a clip, if it is there."""
        ...

    async def put_before(self, moment: float) -> list[str]:
        """Names of the clips that were last put before `moment`, in seconds since the epoch.

        Drafts that a killed writer left before it are removed.
        """
        ...


def open_store(settings: Settings) -> ClipStore:
    """The store of these settings. Raises SettingsError if it needs what is not installed."""
    if settings.clips.s3_bucket:
        from voices.s3_clip_store import S3ClipStore  # noqa: PLC0415 - an extra

        return S3ClipStore(settings.clips)
    return LocalClipStore(settings.data_path() / "clips")


def object_name(sha256: str) -> str:
    """Name of a clip within a store, folders of 256 at the top. Raises ValueError for what is not a name."""
    if not _SHA256.fullmatch(sha256):
        raise ValueError("a clip's name is 64 lower-case hex digits")
    return f"{sha256[:2]}/{sha256}.flac"


class LocalClipStore:
    """A folder; made with the first clip, readable by the owner only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, sha256: str, flac: bytes) -> None:
        await asyncio.to_thread(_write, self._folder / object_name(sha256), flac)

    async def get(self, sha256: str) -> bytes | None:
        return await asyncio.to_thread(_read, self._folder / object_name(sha256))

    async def delete(self, sha256: str) -> None:
        path = self._folder / object_name(sha256)
        await asyncio.to_thread(path.unlink, missing_ok=True)

    async def put_before(self, moment: float) -> list[str]:
        return await asyncio.to_thread(_put_before, self._folder, moment)


def name_of(path: str) -> str | None:
    """The clip that a path within a store holds; None for what is no clip."""
    name = path.rpartition("/")[2].removesuffix(".flac")
    return name if _SHA256.fullmatch(name) and path.endswith(object_name(name)) else None


def _put_before(folder: Path, moment: float) -> list[str]:
    found = []
    for path in folder.glob("??/*"):
        try:
            if path.stat().st_mtime >= moment:
                continue
            if path.match(_DRAFT.format("*")):
                path.unlink()
        except FileNotFoundError:
            continue  # it was finished, or deleted, meanwhile
        name = name_of(path.as_posix())
        if name is not None:
            found.append(name)
    return found


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write(path: Path, data: bytes) -> None:
    """Write whole or not at all: beside its place, to the disk, then renamed."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Its own name: two writers of one clip do not meet.
    draft = path.with_name(_DRAFT.format(secrets.token_hex(8)))
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Bring a new name to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
