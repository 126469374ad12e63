"""An intake with the default settings."""

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from shared.settings import ClipsSettings
from voices.clips import ClipIntake, TakenClip

Take = Callable[..., Awaitable[TakenClip]]


def intake_processes() -> list[str]:
    """Command lines of the intake processes that this process has started and that still exist."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        # A thread or a process may end while it is looked at.
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                command = Path("/proc", child, "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if "max_decoded_s" in command or not command:
                    found.append(command or "a zombie")
    return found


@pytest.fixture
def take() -> Take:
    """Take in an upload as the product does by default."""

    async def take_one(data: bytes, max_seconds: float | None = 15) -> TakenClip:
        return await ClipIntake(ClipsSettings()).take(data, max_seconds=max_seconds)

    return take_one


@pytest.fixture
def no_trace(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever is uploaded, no process stays, no file stays open, and none is written anywhere it could be."""
    folder = tmp_path_factory.mktemp("tmp")
    monkeypatch.setenv("TMPDIR", str(folder))
    num_open = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert intake_processes() == []
    assert list(folder.iterdir()) == []
    # An event loop of a test keeps a few for itself until it is closed.
    assert len(list(Path("/proc/self/fd").iterdir())) <= num_open + 8
