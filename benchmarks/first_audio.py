"""What the service adds to the engine: time to the first audio, and CPU while nothing happens.

`python -m benchmarks.first_audio`; README.md says what the numbers mean.
"""

import contextlib
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from benchmarks.bare_relay import EVENT_BYTES
from benchmarks.http_timing import TimingClient, free_port
from benchmarks.processes import cpu_percent, engine_first_ms, python, read_line, running, running_stack, running_valkey
from benchmarks.report import spread, write

TEXT = "Good morning to you all."
VOICE = "heart"
"""The engine's own voice: the cheapest, so that its share varies least."""

GOAL_MS = 10.0
GOAL_RATIO = 1.5
GOAL_IDLE_PERCENT = 2.0

_WARM_UP_ROUNDS = 5
# The last request's clean-up is over before the next is timed.
_PAUSE_S = 0.03
_SETTLE_S = 2.0

Measure = Callable[[int], float]
"""A seed -> milliseconds."""


@click.command()
@click.option("--rounds", default=60, show_default=True, help="Requests of each kind.")
@click.option("--idle-seconds", default=20.0, show_default=True, help="How long to watch the idle stack.")
def main(rounds: int, idle_seconds: float) -> None:
    """Measure, print a table and write results/first_audio.json."""
    with tempfile.TemporaryDirectory(prefix="gepard-bench-") as name, contextlib.ExitStack() as stack:
        folder, port = Path(name), free_port()
        redis_url, valkey_pid = stack.enter_context(running_valkey(folder))
        pids = {**stack.enter_context(running_stack(redis_url, folder, port)), "valkey": valkey_pid}
        with (
            speech_over_http(port) as over_http,
            bare_engine(folder) as engine,
            bare_relay(redis_url, folder) as relay,
        ):
            measures = {"over_http": over_http, "engine_alone": engine, "bare_relay": relay}
            samples = interleaved(measures, rounds)
        time.sleep(_SETTLE_S)
        idle = cpu_percent(pids, idle_seconds)
        samples["engine_in_worker"] = engine_first_ms(folder)[-rounds:]
    pairs = zip(samples["over_http"], samples["engine_in_worker"], strict=True)
    samples["added"] = [whole_ms - engine_ms for whole_ms, engine_ms in pairs]
    medians = {kind: statistics.median(values) for kind, values in samples.items()}
    goal_ms = max(GOAL_MS, GOAL_RATIO * medians["bare_relay"])
    results = {
        "text": TEXT,
        "rounds": rounds,
        "first_byte_ms": {kind: spread(values) for kind, values in samples.items()},
        "added_ms_goal": goal_ms,
        "idle_cpu_percent_of_a_core": {**idle, "total": sum(idle.values())},
        "idle_cpu_percent_goal": GOAL_IDLE_PERCENT,
    }
    path = write("first_audio", results)
    click.echo(f"{'first byte after, ms':<34}{'median':>8}{'p10':>8}{'p90':>8}")
    for kind, values in samples.items():
        click.echo(f"{kind:<34}" + "".join(f"{value:>8.1f}" for value in spread(values).values()))
    click.echo(f"goal for the median of added: at most {goal_ms:.1f}")
    click.echo(f"\n{'idle CPU, % of a core':<34}{sum(idle.values()):>8.2f}   goal: under {GOAL_IDLE_PERCENT:.0f}")
    for part, percent in idle.items():
        click.echo(f"  {part:<32}{percent:>8.2f}")
    click.echo(f"\n{path}")


def interleaved(measures: dict[str, Measure], rounds: int) -> dict[str, list[float]]:
    """Each measure once a round, in random order: a busy moment of the machine falls on all of them."""
    order = random.Random(0)
    samples: dict[str, list[float]] = {kind: [] for kind in measures}
    for number in range(-_WARM_UP_ROUNDS, rounds):
        for kind in order.sample(list(measures), len(measures)):
            elapsed_ms = measures[kind](number)
            if number >= 0:
                samples[kind].append(elapsed_ms)
            time.sleep(_PAUSE_S)
    return samples


@contextlib.contextmanager
def speech_over_http(port: int) -> Iterator[Measure]:
    """Request to first byte of pcm, through gateway, Valkey and worker."""
    request = {"model": "tts-1", "input": TEXT, "voice": VOICE, "response_format": "pcm"}
    with TimingClient(port, "/v1/audio/speech") as client:
        yield lambda seed: client.first_byte_ms({**request, "seed": seed})


@contextlib.contextmanager
def bare_engine(folder: Path) -> Iterator[Measure]:
    """The same request's first chunk, straight from an engine in a process of its own."""
    with running(python("benchmarks.bare_engine", TEXT, VOICE), folder / "engine.log") as process:
        read_line(process)

        def ask(seed: int) -> float:
            _write_line(process, str(seed))
            return float(read_line(process))

        yield ask


@contextlib.contextmanager
def bare_relay(redis_url: str, folder: Path) -> Iterator[Measure]:
    """Request to first byte of one event of the usual size, with nothing but Redis in between."""
    with (
        running(python("benchmarks.bare_relay", "worker", redis_url), folder / "relay-worker.log") as worker,
        running(python("benchmarks.bare_relay", "app", redis_url), folder / "relay-app.log") as app,
    ):
        read_line(worker)
        with TimingClient(int(read_line(app)), "/") as client:
            yield lambda seed: client.first_byte_ms({"input": TEXT, "seed": seed, "bytes": EVENT_BYTES})


def _write_line(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


if __name__ == "__main__":
    main()
