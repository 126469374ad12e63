"""The `gepard` command as a user runs it: real processes, of this checkout."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
VOICE = "alloy"
"""The default voice."""

_START_S = 90.0
_STOP_S = 60.0


def command(*arguments: object) -> list[str]:
    """`gepard` with arguments."""
    return [sys.executable, "-P", "-m", "cli", *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """So that this checkout runs, not an installed one, without proxies."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def run(*arguments: object, cwd: Path, timeout_s: float = 60.0, **env: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def wait_until(condition: Callable[[], Any], *, within_s: float, what: str) -> Any:
    """The first true value of `condition`; AssertionError when none comes in time."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.02)
    return value


def is_running(pid: int) -> bool:
    """Whether a process lives; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state not in "ZX"


class Gepard:
    """A running `gepard serve`, `gateway` or `worker`; what it logs and prints goes to files in `folder`."""

    def __init__(self, folder: Path, *arguments: object, launcher: Sequence[str] = (), **env: str) -> None:
        """`launcher`: a command that ends in running the one it is given."""
        folder.mkdir(parents=True, exist_ok=True)
        self._out, self._log = folder / "stdout", folder / "stderr"
        with self._out.open("wb") as out, self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*launcher, *command(*arguments)], cwd=folder, env=environment(**env), stdout=out, stderr=log
            )

    @property
    def output(self) -> str:
        """What it has printed."""
        return self._out.read_text()

    @property
    def log(self) -> str:
        """What it and its parts have logged."""
        return self._log.read_text()

    def events(self) -> list[dict[str, Any]]:
        """The log's lines: all are JSON, as stderr is no terminal."""
        return [json.loads(line) for line in self.log.splitlines(keepends=True) if line.endswith("\n")]

    def await_event(self, name: str, **fields: object) -> dict[str, Any]:
        """The first event of that name with these fields."""

        def find() -> dict[str, Any] | None:
            for event in self.events():
                if event["event"] == name and fields.items() <= event.items():
                    return event
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.log}"
            return None

        event: dict[str, Any] = wait_until(find, within_s=_START_S, what=f"{name} {fields}")
        return event

    def parts(self) -> dict[str, int]:
        """Process ids of the parts of serve, as they were started last."""
        return {event["part"]: event["pid"] for event in self.events() if event["event"] == "part_starting"}

    def all_pids(self) -> set[int]:
        """Every process that serve ever started."""
        return {int(pid) for pid in re.findall(r'"pid": (\d+), .*"part_starting"', self.log)}

    def await_banner(self) -> str:
        """Wait until everything is warm; returns the address."""

        def find() -> re.Match[str] | None:
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.log}"
            return re.search(r"served at (http\S+)/v1", self.output) if "Ctrl-C" in self.output else None

        found: re.Match[str] = wait_until(find, within_s=_START_S, what="the banner")
        return found[1]

    def end(self, signum: signal.Signals) -> int:
        """Send a signal and wait for the end; returns the exit status."""
        self.process.send_signal(signum)
        return self.process.wait(_STOP_S)

    def clean(self) -> None:
        """For the end of a test, passed or failed: nothing stays behind."""
        self.process.kill()
        self.process.wait()
        for pid in self.all_pids():
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
