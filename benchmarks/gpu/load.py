"""Many streams of a gateway at once, by several client processes: none of them may be what limits.

`python -m benchmarks.gpu.load FILE` is one such process: a Plan as JSON on stdin, `ready` on stdout, the start time on
stdin, a Report as JSON in FILE, `done` on stdout.
"""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from benchmarks.gpu.raw_http import SpeechConnection
from benchmarks.processes import python
from cli.bench.client_health import watched
from cli.bench.stream import Stream, measure
from shared.formats import FORMATS, AudioFormat

_LEAD_S = 1.5
"""Connections are made a second before their request."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One request: when after the start, of which gateway, and its body."""

    at_s: float
    port: int
    body: dict[str, Any]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The share of one client process. `timeout_s`: a reply that takes longer hangs."""

    asks: list[Ask]
    audio_format: AudioFormat
    timeout_s: float


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One stream. Times are seconds after the start; figures are null for one that failed.

    `heard`: when audio came, and how many seconds of it.
    """

    due_s: float
    end_s: float
    error: str
    first_audio_s: float | None
    audio_s: float | None
    deficit_s: float | None
    underran: bool | None
    heard: list[tuple[float, float]]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What one client process saw, and how it fared: CPU of a core, and lateness of its event loop (p99)."""

    outcomes: list[Outcome]
    cpu_share: float
    lag_ms: float


@dataclass(frozen=True, slots=True)
class Act:
    """Something to do while the streams run, `at_s` seconds after their start."""

    at_s: float
    do: Callable[[], object]


def run_load(
    asks: Sequence[Ask], audio_format: AudioFormat, *, num_clients: int, timeout_s: float, act: Act | None = None
) -> list[Report]:
    """Ask for all streams; blocks until the last of them has ended. Raises RuntimeError when a client dies."""
    shares = [asks[number::num_clients] for number in range(min(num_clients, len(asks)))]
    with contextlib.ExitStack() as stack:
        # Files: more than a pipe holds, written after the event loop's end, has been seen to be cut there.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gepard-load-")))
        files = [folder / f"{number}.json" for number in range(len(shares))]
        clients = [stack.enter_context(_client(file)) for file in files]
        for client, share in zip(clients, shares, strict=True):
            plan = Plan(asks=list(share), audio_format=audio_format, timeout_s=timeout_s)
            _write(client, msgspec.json.encode(plan))
        for client in clients:
            _read(client)
        # One clock for all processes of a machine (CLOCK_MONOTONIC).
        start = time.perf_counter() + _LEAD_S
        for client in clients:
            _write(client, repr(start).encode())
        if act is not None:
            time.sleep(max(0.0, start + act.at_s - time.perf_counter()))
            act.do()
        for client in clients:
            _read(client)
        return [msgspec.json.decode(file.read_bytes(), type=Report) for file in files]


@contextlib.contextmanager
def _client(file: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = python("benchmarks.gpu.load", str(file))
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _write(client: "subprocess.Popen[bytes]", line: bytes) -> None:
    assert client.stdin is not None
    client.stdin.write(line + b"\n")
    client.stdin.flush()


def _read(client: "subprocess.Popen[bytes]") -> bytes:
    assert client.stdout is not None
    if not (line := client.stdout.readline()):
        raise RuntimeError(f"a load client ended with {client.wait()}")
    return line


# --- In the client process ---------------------------------------------------------------------------------


async def _ask_all(plan: Plan, start: float) -> Report:
    rate_hz = FORMATS[plan.audio_format].default_rate_hz
    streams = [Stream(text="", due=0.0, audio_format=plan.audio_format, rate_hz=rate_hz) for _ in plan.asks]
    async with watched() as health, asyncio.TaskGroup() as tasks:
        for stream, ask in zip(streams, plan.asks, strict=True):
            body = msgspec.json.encode(ask.body)
            connection = SpeechConnection(stream)
            tasks.create_task(connection.ask(ask.port, body, start + ask.at_s, timeout_s=plan.timeout_s))
    outcomes = [_outcome(stream, start) for stream in streams]
    return Report(outcomes=outcomes, cpu_share=health.cpu_share, lag_ms=1000 * health.lag_p99_s)


def _outcome(stream: Stream, start: float) -> Outcome:
    measured = measure(stream)
    return Outcome(
        due_s=stream.due - start,
        end_s=stream.end - start,
        error=stream.error,
        first_audio_s=measured.first_audio_s if measured else None,
        audio_s=measured.audio_s if measured else None,
        deficit_s=measured.deficit_s if measured else None,
        underran=measured.underran if measured else None,
        heard=[(at_s - start, audio_s) for at_s, audio_s in measured.heard] if measured else [],
    )


def main() -> None:
    """Be a client."""
    plan = msgspec.json.decode(sys.stdin.buffer.readline(), type=Plan)
    print("ready", flush=True)
    start = float(sys.stdin.buffer.readline())
    report = uvloop.run(_ask_all(plan, start))
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(report))
    print("done", flush=True)


if __name__ == "__main__":
    main()
