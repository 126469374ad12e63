"""A gateway and a worker with the embedded engine, as two processes of this checkout."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import httpx

_ROOT = Path(__file__).parents[2]
_START_S = 90.0
_STOP_S = 40.0

T = TypeVar("T")


@dataclass
class Processes:
    """What runs, and where its logs are (JSON lines)."""

    folder: Path
    url: str = ""
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, part: str, *options: str) -> subprocess.Popen[bytes]:
        """Start `gepard PART`."""
        with self.log_path(part).open("wb") as log:
            process = subprocess.Popen(
                # -P: the folder it runs in has no say in what is imported.
                [sys.executable, "-P", "-m", "cli", part, *options],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.running.append(process)
        return process

    def log_path(self, part: str) -> Path:
        return self.folder / f"{part}.log"

    def logs(self) -> dict[str, str]:
        """Part -> everything it has logged."""
        return {path.stem: path.read_text() for path in sorted(self.folder.glob("*.log"))}

    def wait_for(self, condition: Callable[[], T | None]) -> T:
        """The first value that is not None; AssertionError with the logs when a process ends or time is up."""
        deadline = time.monotonic() + _START_S
        while (value := condition()) is None:
            assert all(process.poll() is None for process in self.running), f"a process ended: {self.logs()}"
            assert time.monotonic() < deadline, f"not started in time: {self.logs()}"
            time.sleep(0.05)
        return value

    def stop(self) -> None:
        """End all as SIGTERM does; whatever does not end in time is killed."""
        for process in self.running:
            process.terminate()
        for process in self.running:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def running_processes(redis_url: str, folder: Path) -> Iterator[Processes]:
    """A warm stack on a free port and that Redis."""
    processes = Processes(folder)
    try:
        processes.start("worker", "--redis-url", redis_url)
        processes.start("gateway", "--redis-url", redis_url, "--port", "0")
        processes.url = processes.wait_for(lambda: _listening_url(processes.log_path("gateway")))
        processes.wait_for(lambda: _is_ready(processes.url))
        yield processes
    finally:
        processes.stop()


def _listening_url(log: Path) -> str | None:
    for line in log.read_text().splitlines():
        with contextlib.suppress(ValueError):  # half a line
            event = json.loads(line)
            if event["event"] == "gateway_listening":
                url: str = event["urls"][0]
                return url
    return None


def _is_ready(url: str) -> bool | None:
    try:
        return httpx.get(f"{url}/ready", trust_env=False).is_success or None
    except httpx.TransportError:
        return None
