"""The tiny model's host in a thread of this process, and an engine that brings its own. Importing needs no PyTorch."""

import asyncio
import contextlib
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.support.tiny_gepard import CHECKPOINT, CODEC, write_starters
from workers.engines.gepard import GepardEngine
from workers.engines.hibari import HibariEngine

BACKEND = os.environ.get("TEST_BACKEND", "torch")
"""`vllm` where the suites of the host and the engine shall run over that; see `make test-vllm`."""


def _rendered(cache: Path) -> Path:
    """Clips of the embedded presets, as `gepard host` makes them where the operator has none."""
    from workers.engines.gepard_starters import rendered_starters  # noqa: PLC0415  # imports torch

    # In a thread: the caller may be on an event loop.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(
            asyncio.run, rendered_starters(HibariEngine(num_threads=1), cache / "starter-clips")
        ).result()


class ThreadHost:
    """A host on an event loop of its own. What breaks it is kept and ends it, as it would end the process."""

    def __init__(self, folder: Path, *, num_workers: int = 1, step_timeout_s: float | None = None, **options: Any):
        from workers.host.model import HostOptions, load_model  # noqa: PLC0415  # imports torch

        clips = folder / "clips"
        values: dict[str, Any] = {
            "checkpoint": CHECKPOINT,
            "codec": CODEC,
            "cache": folder / "cache",
            "starter_clips": clips if clips.exists() else write_starters(clips),
            "own_clips": True,
            "backend": BACKEND,
            "device": "cpu",
            "num_threads": 1,
            "rows": 4,
            "capacity": 16,
            "num_workers": num_workers,
        }
        values |= options
        if values["starter_clips"] is None:
            values |= {"starter_clips": _rendered(values["cache"]), "own_clips": False}
        self.model = load_model(HostOptions(**values))
        # Short enough for a socket, wherever the tests' folders are.
        self._socket_folder = tempfile.TemporaryDirectory(prefix="gepard-", ignore_cleanup_errors=True)
        self.path = Path(self._socket_folder.name) / "host.sock"
        self.failure: Exception | None = None
        self._num_workers = num_workers
        self._step_timeout_s = step_timeout_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="host")

    @property
    def steps(self) -> Any:
        """Its loop."""
        return self._host.steps

    def start(self) -> None:
        """Returns when it is warm, or has failed."""
        self._thread.start()
        while not self.path.exists() and self._thread.is_alive():
            time.sleep(0.01)

    def end(self) -> None:
        """Stop serving; the socket's folder stays."""
        self._end()
        self._thread.join()

    def stop(self) -> None:
        """End, and leave nothing behind."""
        self.end()
        self._socket_folder.cleanup()

    async def _run(self) -> None:
        from workers.host.host import EngineHost  # noqa: PLC0415

        self._loop = asyncio.get_running_loop()
        self._host = EngineHost(
            self.model,
            num_workers=self._num_workers,
            step_timeout_s=self._step_timeout_s,
            on_failure=self._failed,
        )
        self._serving = asyncio.create_task(self._host.serve(self.path))
        await asyncio.wait([self._serving])
        if not self._serving.cancelled():
            self._serving.result()

    def _failed(self, error: Exception) -> None:
        self.failure = error
        self._end()

    def _end(self) -> None:
        # It may have ended already.
        with contextlib.suppress(RuntimeError):
            if self._loop is not None and self._serving is not None:
                self._loop.call_soon_threadsafe(self._serving.cancel)


class HostedEngine(GepardEngine):
    """The engine as a worker has it, with a host of its own that starts and stops with it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.thread_host = ThreadHost(folder, **options)
        super().__init__(host=self.thread_host.path, checkpoint=CHECKPOINT)

    @property
    def steps(self) -> Any:
        """The host's loop."""
        return self.thread_host.steps

    @property
    def num_free_slots(self) -> int:
        """Of the host's codec."""
        return self.thread_host.model.codec.num_free_slots

    async def start(self) -> None:
        self.thread_host.start()
        await super().start()

    async def stop(self) -> None:
        await super().stop()
        await asyncio.to_thread(self.thread_host.stop)
