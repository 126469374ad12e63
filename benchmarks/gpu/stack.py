"""The whole product on one machine: Valkey, workers (with their engine host) and gateways, watched by role."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from benchmarks.http_timing import free_port, get_status, get_text
from benchmarks.processes import cpu_seconds, running_valkey
from shared.broker.heartbeat import Fleet
from shared.contracts import Heartbeat

_STOP_S = 30.0
_LASTING_KEYS = ("gepard:heartbeat:", "gepard:workers", "gepard:profile", "gepard:clip:", "gepard:cancelled:")
"""What may be in Redis when nothing runs: the workers' own, what speakers were made of, marks that expire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlan:
    """What to start. `num_workers`: processes; with `gepard` they share the host that one command starts.

    `env`: settings of all parts.
    """

    engine: str
    num_gateways: int
    num_workers: int
    env: Mapping[str, str]
    start_timeout_s: float


@dataclass
class RunningStack:
    """The running parts."""

    folder: Path
    redis_url: str
    ports: list[int]
    plan: StackPlan
    valkey_pid: int
    gateways: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    workers: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    _started: dict[int, float] = field(default_factory=dict)

    # --- Starting and ending -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all and wait until every gateway would be answered."""
        commands = 1 if self.plan.engine == "gepard" else self.plan.num_workers
        self.workers = [self._spawn("worker", number) for number in range(commands)]
        self.gateways = [self._spawn("gateway", number, "--port", str(port)) for number, port in enumerate(self.ports)]
        self.await_ready()

    def await_ready(self) -> float:
        """Wait until all workers beat and all gateways see one; seconds that took. Restarts commands that ended."""
        began = time.monotonic()
        while not self._is_ready():
            self._revive()
            if time.monotonic() - began > self.plan.start_timeout_s:
                raise TimeoutError(f"not ready after {self.plan.start_timeout_s:g} s; the logs are in {self.folder}")
            time.sleep(0.1)
        return time.monotonic() - began

    def stop(self) -> None:
        """End all; SIGTERM first, so that what a log has to say is in it."""
        for process in (*self.gateways, *self.workers):
            process.terminate()
        for process in (*self.gateways, *self.workers):
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _is_ready(self) -> bool:
        accepting = [beat for beat in self.beats() if beat.accepting]
        wanted = self.plan.num_workers
        return len(accepting) >= wanted and all(get_status(port, "/ready") == 200 for port in self.ports)

    def _revive(self) -> None:
        for number, process in enumerate(self.workers):
            if process.poll() is not None:
                if process.returncode > 0 and time.monotonic() - self._started[number] < 2:
                    raise RuntimeError(f"a worker ended with {process.returncode} at its start: see {self.folder}")
                self.workers[number] = self._spawn("worker", number)

    def _spawn(self, role: str, number: int, *options: str) -> "subprocess.Popen[bytes]":
        if role == "worker":
            self._started[number] = time.monotonic()
        command = [sys.executable, "-m", "cli", role, "--redis-url", self.redis_url, *options]
        env = {
            **os.environ,
            "GEPARD_WORKER_ENGINE": self.plan.engine,
            "GEPARD_MODEL": self.plan.engine,
            "GEPARD_DATA_DIR": str(self.folder / "data"),
            **self.plan.env,
        }
        with (self.folder / f"{role}-{number}.log").open("ab") as log:
            return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    # --- Looking -------------------------------------------------------------------------------------------

    def beats(self) -> tuple[Heartbeat, ...]:
        """What the live workers say of themselves."""

        async def look() -> tuple[Heartbeat, ...]:
            async with AsyncRedis.from_url(self.redis_url) as redis:
                fleet = Fleet(redis)
                await fleet.refresh()
                return fleet.workers()

        return asyncio.run(look())

    def pids(self) -> dict[int, str]:
        """Process id -> role, of all parts that run now, however they were started."""
        roles = {self.valkey_pid: "valkey"}
        for process in (*self.gateways, *self.workers):
            for pid in _tree(process.pid):
                if role := _role(pid):
                    roles[pid] = role
        return roles

    def cpu(self) -> dict[int, tuple[str, float]]:
        """Process id -> role and CPU seconds so far."""
        seconds: dict[int, tuple[str, float]] = {}
        for pid, role in self.pids().items():
            with contextlib.suppress(OSError):
                seconds[pid] = (role, cpu_seconds(pid))
        return seconds

    def metric(self, name: str) -> float:
        """The sum of a metric over all gateways."""
        total = 0.0
        for port in self.ports:
            for family in text_string_to_metric_families(get_text(port, "/metrics")):
                total += sum(sample.value for sample in family.samples if sample.name == name)
        return total

    def left_over_keys(self) -> list[str]:
        """Names in Redis that should not be there when nothing runs."""
        with Redis.from_url(self.redis_url) as redis:
            names = [key.decode() for key in redis.scan_iter()]
        return sorted(name for name in names if not name.startswith(_LASTING_KEYS))

    # --- Breaking ------------------------------------------------------------------------------------------

    def kill(self, role: str) -> int:
        """`kill -9` one process of a role; its id."""
        pid = next(pid for pid, each in self.pids().items() if each == role)
        os.kill(pid, signal.SIGKILL)
        return pid


def _tree(pid: int) -> Iterator[int]:
    """A process and all that came of it."""
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text(encoding="ascii").split():
                yield from _tree(int(child))


def _role(pid: int) -> str | None:
    """Its part in the product, by its command line; None for one that is gone."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    if "host" in words:
        return "host"
    for command in ("gateway", "worker"):
        if command in words:
            has_host = any(word.startswith("--host") for word in words)
            return "supervisor" if command == "worker" and not has_host and _has_children(pid) else command
    return "engine core" if words[0].startswith("VLLM") else "other"


def _has_children(pid: int) -> bool:
    return any(True for child in _tree(pid) if child != pid)


@contextlib.contextmanager
def running_stack(folder: Path, plan: StackPlan) -> Iterator[RunningStack]:
    """Start everything in `folder`, where the logs are; all ends with the context."""
    with running_valkey(folder) as (redis_url, valkey_pid):
        stack = RunningStack(folder, redis_url, [free_port() for _ in range(plan.num_gateways)], plan, valkey_pid)
        try:
            stack.start()
            yield stack
        finally:
            stack.stop()
