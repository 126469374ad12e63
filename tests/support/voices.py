"""Calls of the voice routes, short enough to read a test by."""

from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import func, select

from shared.database import Database, database_url
from shared.settings import Settings
from tests.support.stack import Stack
from tests.support.waiting import eventually
from voices.models import ConsentRow, VoiceRow, VoiceStatusRow

VOICES = "/v1/voices"


class Api:
    """One client of a gateway."""

    def __init__(self, client: httpx.AsyncClient, path: str = VOICES) -> None:
        self.client = client
        self.path = path

    async def upload(self, data: bytes, name: str = "ann", *, part: str = "audio_sample", **texts: str) -> Any:
        """The response to an upload."""
        return await self.client.post(
            self.path,
            data={"name": name, "consent": "she said yes", **texts},
            files={part: ("clip", data, "application/octet-stream")},
        )

    async def add(self, data: bytes, name: str = "ann", **texts: str) -> dict[str, Any]:
        """The voice, made."""
        response = await self.upload(data, name, **texts)
        assert response.status_code == 200, response.text
        voice: dict[str, Any] = response.json()
        return voice

    async def get(self, voice_id: str) -> dict[str, Any]:
        response = await self.client.get(f"{self.path}/{voice_id}")
        assert response.status_code == 200, response.text
        voice: dict[str, Any] = response.json()
        return voice

    async def settled(self, voice_id: str) -> dict[str, Any]:
        """The voice once it is not pending any more."""

        async def look() -> dict[str, Any] | None:
            voice = await self.get(voice_id)
            return None if voice["status"] == "pending" else voice

        voice: dict[str, Any] = await eventually(look, within_s=20)
        return voice

    async def own(self) -> list[dict[str, Any]]:
        """The list without what is built in."""
        response = await self.client.get(self.path, params={"limit": 100})
        assert response.status_code == 200, response.text
        return [voice for voice in response.json()["data"] if voice["kind"] == "clip"]

    async def delete(self, voice_id: str) -> Any:
        return await self.client.delete(f"{self.path}/{voice_id}")

    async def say(self, voice: Any, text: str = "Hello there.", **more: Any) -> Any:
        """The response to a speech request, pcm."""
        return await self.client.post(
            "/v1/audio/speech",
            json={"model": "tts-1", "input": text, "voice": voice, "response_format": "pcm", "seed": 1, **more},
        )


def error_of(response: httpx.Response) -> tuple[int, str, str | None]:
    """Status, code and parameter of a refusal; checks its shape."""
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}, error
    return response.status_code, error["code"], error["param"]


def stored_files(settings: Settings) -> set[str]:
    """Every file of the clip store."""
    folder = settings.data_path() / "clips"
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} if folder.exists() else set()


def all_files(folder: Path) -> set[Path]:
    """Every file below a folder, without the database's own."""
    return {path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("gepard.db")}


async def num_rows(settings: Settings) -> dict[str, int]:
    """Rows of the registry's tables."""
    async with Database(database_url(settings)) as database, database.session() as session:
        return {
            table.__tablename__: (await session.execute(select(func.count()).select_from(table))).scalar_one()
            for table in (VoiceRow, VoiceStatusRow, ConsentRow)
        }


async def assert_nothing_left(stack: Stack) -> None:
    """No file, no row and no key of any voice or consent."""

    async def is_clean() -> bool:
        # Marks of cancelled attempts say nothing of a voice, and expire.
        return not {key for key in await stack.keys() if not key.startswith("gepard:cancelled:")}

    assert stored_files(stack.settings) == set()
    assert set((await num_rows(stack.settings)).values()) == {0}
    await eventually(is_clean, within_s=5)
