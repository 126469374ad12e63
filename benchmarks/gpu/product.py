"""The whole product on one machine, over HTTP: how soon it speaks, how many hear it without a gap, what limits it.

    python -m benchmarks.gpu.product --engine gepard --device cuda --backend vllm --workers 4 --gateways 4

Without --checkpoint, a full-size checkpoint and codec with random weights are made first: they speak noise, at the
real cost. benchmarks/README.md says what is measured and how.
"""

import itertools
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.gpu.load import Act, Ask, Outcome, run_load
from benchmarks.gpu.stack import RunningStack, StackPlan, running_stack
from benchmarks.report import write
from cli.bench.arrivals import poisson
from cli.bench.texts import composed_texts
from shared.clip import Clip
from shared.formats import AudioFormat
from workers.audio.clip_file import write_clip

_WORDS = (
    "able",
    "bird",
    "cold",
    "door",
    "east",
    "fish",
    "gold",
    "hand",
    "iron",
    "joke",
    "kind",
    "lamp",
    "moon",
    "nest",
)
_NUM_WORDS = 15
"""A sentence of one segment, whose guard against endless speech allows over 20 s."""

_LISTEN_S = 20.0
_FRAMES = 430
"""20 s of the model's 46 ms."""

_VOICES = ("ash", "birch", "cedar", "elm")
_SETTLE_S = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How every run of one program run is made."""

    engine: str
    frames: int
    num_clients: int
    timeout_s: float
    rounds_of_one: int


def request(options: Options, number: int, audio_format: AudioFormat) -> dict[str, Any]:
    """A text and a seed of its own; speech of a fixed length where the engine can be told."""
    rng = random.Random(number)
    body = {"model": "tts-1", "response_format": audio_format.value, "seed": number}
    if options.engine != "gepard":
        return {**body, "voice": "alloy", "input": next(itertools.islice(composed_texts(number), 1, None))}
    words = " ".join(rng.choice(_WORDS) for _ in range(_NUM_WORDS))
    knobs = {"stop_threshold": 1.0, "max_frames": options.frames, "force_stop_frames": options.frames}
    return {**body, **knobs, "voice": rng.choice(_VOICES), "input": f"{words.capitalize()}."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """`kill -9` of a process of `role`, `times` times, each `after_s` after so many streams began."""

    role: str
    times: int
    after_s: float
    streams: int


# --- One run -----------------------------------------------------------------------------------------------


def asks_at(
    options: Options, stack: RunningStack, times: Sequence[float], audio_format: AudioFormat, first: int
) -> list[Ask]:
    """A request at each of the times, by turns to each gateway."""
    ports = itertools.cycle(stack.ports)
    return [
        Ask(at_s=at_s, port=next(ports), body=request(options, first + number, audio_format))
        for number, at_s in enumerate(times)
    ]


def measured_run(
    options: Options, stack: RunningStack, times: Sequence[float], audio_format: AudioFormat, first: int
) -> dict[str, Any]:
    """Figures of one load, with what each role used meanwhile."""
    frames_s = {beat.worker: beat.totals.audio_s for beat in stack.beats()}
    cpu = stack.cpu()
    reports = run_load(
        asks_at(options, stack, times, audio_format, first),
        audio_format,
        num_clients=options.num_clients,
        timeout_s=options.timeout_s,
    )
    cpu_after = stack.cpu()
    time.sleep(_SETTLE_S)
    made_s = sum(beat.totals.audio_s - frames_s.get(beat.worker, 0.0) for beat in stack.beats())
    outcomes = [outcome for report in reports for outcome in report.outcomes]
    figures = figures_of(outcomes)
    span_s = figures["span_s"]
    return {
        "streams": len(outcomes),
        "format": audio_format.value,
        **figures,
        "made_times_real_time": made_s / span_s if span_s else 0.0,
        "cores": cores_by_role(cpu, cpu_after, span_s),
        "client": {
            "processes": len(reports),
            "cpu_share_max": max(report.cpu_share for report in reports),
            "lag_p99_ms_max": max(report.lag_ms for report in reports),
        },
    }


def figures_of(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """What the listeners of a run had."""
    whole = [outcome for outcome in outcomes if not outcome.error and outcome.audio_s]
    span_s = max((outcome.end_s for outcome in outcomes), default=0.0) - min(outcome.due_s for outcome in outcomes)
    audio_s = sum(outcome.audio_s or 0.0 for outcome in whole)
    return {
        "done": len(whole),
        "errors": dict(Counter(outcome.error for outcome in outcomes if outcome.error)),
        "span_s": span_s,
        "audio_s": audio_s,
        "times_real_time": audio_s / span_s if span_s else 0.0,
        "first_audio_ms": percentiles([1000 * (outcome.first_audio_s or 0.0) for outcome in whole]),
        "real_time_factor": percentiles([(each.end_s - each.due_s) / (each.audio_s or 1.0) for each in whole]),
        "deficit_ms": percentiles([1000 * (outcome.deficit_s or 0.0) for outcome in whole]),
        "underruns": sum(bool(outcome.underran) for outcome in whole),
    }


def percentiles(values: Sequence[float]) -> dict[str, float] | None:
    """p50, p99 and the greatest; None of nothing."""
    if not values:
        return None
    p50, p99 = np.percentile(values, (50, 99))
    return {"p50": float(p50), "p99": float(p99), "max": max(values)}


def cores_by_role(
    before: dict[int, tuple[str, float]], after: dict[int, tuple[str, float]], span_s: float
) -> dict[str, dict[str, float]]:
    """CPU by role: cores of all its processes, and of the busiest, on average while streams ran."""
    shares: dict[str, list[float]] = {}
    for pid, (role, seconds) in after.items():
        shares.setdefault(role, []).append((seconds - before.get(pid, (role, 0.0))[1]) / span_s)
    return {role: {"processes": len(each), "sum": sum(each), "max": max(each)} for role, each in shares.items()}


def one_after_another(options: Options, stack: RunningStack, audio_format: AudioFormat, first: int) -> dict[str, Any]:
    """A stream alone, several times; the figures of all."""
    runs = [
        measured_run(options, stack, [0.0], audio_format, first + number) for number in range(options.rounds_of_one)
    ]
    merged = dict(runs[len(runs) // 2])
    for name in ("first_audio_ms", "real_time_factor", "deficit_ms"):
        merged[name] = percentiles([run[name]["p50"] for run in runs if run[name]])
    merged["streams"], merged["done"] = len(runs), sum(run["done"] for run in runs)
    merged["underruns"] = sum(run["underruns"] for run in runs)
    merged["errors"] = dict(sum((Counter(run["errors"]) for run in runs), Counter()))
    return merged


def all_runs(
    options: Options,
    stack: RunningStack,
    levels: Sequence[int],
    formats: Sequence[AudioFormat],
    arrivals: Sequence[str],
    poisson_s: float,
) -> Iterator[dict[str, Any]]:
    """Every level in every format: pcm first."""
    first = 1
    for audio_format, count, kind in itertools.product(formats, levels, arrivals):
        if count == 1:
            if kind != arrivals[0]:
                continue
            run = one_after_another(options, stack, audio_format, first)
        elif kind == "burst":
            run = measured_run(options, stack, [0.0] * count, audio_format, first)
        else:
            # So many that, each listened to for its length, `count` listen at a time.
            rate = count / (options.frames * 1024 / 22050 if options.engine == "gepard" else _LISTEN_S)
            times = list(poisson(rate, seed=count, duration_s=poisson_s, count=None))
            run = measured_run(options, stack, times, audio_format, first)
        first += run["streams"]
        yield {"at_once": count, "arrivals": kind if count > 1 else "alone", **run}


# --- Killing -----------------------------------------------------------------------------------------------


def kill_runs(options: Options, stack: RunningStack, kill: Kill) -> dict[str, Any]:
    """Kill a process of a role again and again under load; what became of the streams, and what is left."""
    gpu_before, rounds = gpu_memory_mib(), []
    for number in range(1, kill.times + 1):
        resumed = stack.metric("gepard_resumed_replies_total")
        reports = run_load(
            asks_at(options, stack, [0.0] * kill.streams, AudioFormat.PCM, 1000 * number),
            AudioFormat.PCM,
            num_clients=options.num_clients,
            timeout_s=options.timeout_s,
            act=Act(kill.after_s, lambda: stack.kill(kill.role)),
        )
        outcomes = [outcome for report in reports for outcome in report.outcomes]
        ended_s = [each.end_s - kill.after_s for each in outcomes if each.error not in ("", "timeout")]
        rounds.append(
            {
                "done": sum(not each.error for each in outcomes),
                "resumed": stack.metric("gepard_resumed_replies_total") - resumed,
                "errors": dict(Counter(each.error for each in outcomes if each.error)),
                "hung": sum(each.error == "timeout" for each in outcomes),
                "errors_after_kill_s_max": max(ended_s, default=None),
                "deficit_ms": figures_of(outcomes)["deficit_ms"],
                "ready_again_s": stack.await_ready(),
            }
        )
        click.echo(f"kill {number}: {rounds[-1]}")
    time.sleep(_SETTLE_S)
    return {
        "role": kill.role,
        "streams_each": kill.streams,
        "after_s": kill.after_s,
        "rounds": rounds,
        "left": {
            "redis_keys": stack.left_over_keys(),
            "gateway_streams": stack.metric("gepard_active_streams") + stack.metric("gepard_waiting_requests"),
            "worker_streams": sum(beat.active for beat in stack.beats()),
            "gpu_memory_mib_before_and_after": [gpu_before, gpu_memory_mib()],
        },
    }


def gpu_memory_mib() -> int | None:
    """Memory in use on the first GPU; None without one."""
    try:
        command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.split()[0])
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        return None


# --- The program -------------------------------------------------------------------------------------------


def make_random_model(folder: Path) -> tuple[Path, Path]:
    """A checkpoint and a codec of full size with random weights."""
    # Here, since they need PyTorch, which the embedded engine does not.
    from benchmarks.random_checkpoint import write_checkpoint  # noqa: PLC0415
    from benchmarks.random_codec import write_random_codec  # noqa: PLC0415

    write_checkpoint(folder / "checkpoint", dtype="bfloat16", seed=0)
    write_random_codec(folder / "codec.nemo")
    return folder / "checkpoint", folder / "codec.nemo"


def make_voices(folder: Path) -> Path:
    """Clips to start with: noise speaks as well as speech with random weights."""
    folder.mkdir()
    for number, name in enumerate(_VOICES):
        samples = 0.1 * np.random.default_rng(number).standard_normal(6 * 22050)
        write_clip(folder / f"{name}.wav", Clip(samples=samples.astype(np.float32), rate_hz=22050))
    return folder


def settings_of(engine: str, folder: Path, given: dict[str, Any]) -> dict[str, str]:
    """Environment of all parts; `given` are the options of the command line."""
    # So that the bounds are not what is measured.
    env = {
        "GEPARD_LIMITS_MAX_PENDING": "4096",
        "GEPARD_REDIS_MAX_CONNECTIONS": "4096",
        "GEPARD_LOG_FORMAT": "json",
    }
    if given["capacity"]:
        env["GEPARD_WORKER_CAPACITY"] = str(given["capacity"])
    if engine == "gepard":
        checkpoint, codec = given["checkpoint"], given["codec"]
        if checkpoint is None or codec is None:
            checkpoint, codec = make_random_model(folder)
        env |= {
            "GEPARD_GEPARD_CHECKPOINT": str(checkpoint),
            "GEPARD_GEPARD_CODEC": str(codec),
            "GEPARD_GEPARD_STARTER_CLIPS": str(make_voices(folder / "voices")),
            "GEPARD_GEPARD_DEVICE": given["device"],
            "GEPARD_DEFAULT_VOICE": _VOICES[0],
        }
        if given["workers"] > 1:
            env["GEPARD_GEPARD_WORKERS"] = str(given["workers"])
        if given["backend"]:
            env["GEPARD_GEPARD_BACKEND"] = given["backend"]
    return env | dict(item.split("=", 1) for item in given["settings"])


def row(run: dict[str, Any]) -> str:
    """One line of the table."""
    first, factor = run["first_audio_ms"] or {}, run["real_time_factor"] or {}
    cells = [
        f"{run['at_once']:>5} {run['arrivals']:<8}{run['format']:<6}",
        f"{first.get('p50', 0):>8.0f}{first.get('p99', 0):>8.0f}",
        f"{factor.get('p50', 0):>8.3f}{factor.get('p99', 0):>8.3f}",
        f"{run['underruns']:>6}/{run['done']:<5}",
        f"{run['made_times_real_time']:>8.0f}{run['times_real_time']:>8.0f}",
        "  " + " ".join(f"{role} {used['sum']:.1f}/{used['max']:.2f}" for role, used in sorted(run["cores"].items())),
        f"  client {run['client']['cpu_share_max']:.2f} {run['client']['lag_p99_ms_max']:.0f} ms",
        f"  {run['errors']}" if run["errors"] else "",
    ]
    return "".join(cells)


_HEADING = (
    f"{'streams':<20}{'first audio, ms':>15}{'real-time factor':>17}{'underrun':>12}{'x real time':>16}"
    f"  cores: all/busiest\n{'':<20}{'p50':>7}{'p99':>8}{'p50':>8}{'p99':>8}{'':>12}{'made':>8}{'heard':>8}"
)


@click.command()
@click.option("--engine", type=click.Choice(["gepard", "hibari"]), default="gepard", show_default=True)
@click.option("--backend", help="gepard.backend, where there are several.")
@click.option("--device", default="auto", show_default=True, help="gepard.device.")
@click.option("--checkpoint", type=click.Path(exists=True, path_type=Path), help="Instead of random weights.")
@click.option("--codec", type=click.Path(exists=True, path_type=Path), help="With --checkpoint.")
@click.option("--gateways", type=click.IntRange(1), default=1, show_default=True)
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True)
@click.option("--capacity", type=click.IntRange(1), help="worker.capacity: streams of each worker.")
@click.option("--set", "settings", multiple=True, help="GEPARD_NAME=VALUE, for all parts.")
@click.option("--levels", default="1,32,128,256,512", show_default=True, help="Streams at once.")
@click.option("--formats", default="pcm,mp3,opus", show_default=True)
@click.option("--arrivals", default="burst,poisson", show_default=True)
@click.option("--poisson-seconds", default=20.0, show_default=True, help="How long requests arrive.")
@click.option("--frames", default=_FRAMES, show_default=True, help="Length of a stream, with --engine gepard.")
@click.option("--rounds-of-one", default=8, show_default=True)
@click.option("--clients", default=4, show_default=True, help="Client processes.")
@click.option("--timeout", default=120.0, show_default=True, help="A reply that takes longer hangs; seconds.")
@click.option("--start-timeout", default=600.0, show_default=True)
@click.option("--kill-host", "kills", default=0, show_default=True, help="Kill so many times under load, instead.")
@click.option("--kill-role", default="host", show_default=True, help="host, worker or gateway.")
@click.option("--kill-after", default=0.7, show_default=True, help="Seconds after the streams began.")
@click.option("--kill-streams", default=128, show_default=True)
@click.option("--logs", type=click.Path(path_type=Path), help="Folder to copy the logs of all parts to.")
@click.option("--name", default="product", show_default=True, help="Of the result.")
def main(**given: Any) -> None:  # noqa: ANN401  # click's options
    """Measure, print a table and write results/NAME.json."""
    options = Options(
        engine=given["engine"],
        frames=given["frames"],
        num_clients=given["clients"],
        timeout_s=given["timeout"],
        rounds_of_one=given["rounds_of_one"],
    )
    results: dict[str, Any] = {"command": " ".join(["python -m benchmarks.gpu.product", *sys.argv[1:]])}
    with tempfile.TemporaryDirectory(prefix="gepard-product-") as name:
        folder = Path(name)
        plan = StackPlan(
            engine=options.engine,
            num_gateways=given["gateways"],
            num_workers=given["workers"],
            env=settings_of(options.engine, folder, given),
            start_timeout_s=given["start_timeout"],
        )
        try:
            with running_stack(folder, plan) as stack:
                warm_up(options, stack)
                if given["kills"]:
                    kill = Kill(
                        role=given["kill_role"],
                        times=given["kills"],
                        after_s=given["kill_after"],
                        streams=given["kill_streams"],
                    )
                    results["kills"] = kill_runs(options, stack, kill)
                else:
                    results["runs"] = runs = []
                    click.echo(_HEADING)
                    for run in all_runs(
                        options,
                        stack,
                        [int(level) for level in given["levels"].split(",")],
                        [AudioFormat(each) for each in given["formats"].split(",")],
                        given["arrivals"].split(","),
                        given["poisson_seconds"],
                    ):
                        runs.append(run)
                        click.echo(row(run))
                results["left_over_keys"] = stack.left_over_keys()
        finally:
            if given["logs"]:
                given["logs"].mkdir(parents=True, exist_ok=True)
                for log in folder.glob("*.log"):
                    shutil.copy(log, given["logs"])
    click.echo(write(given["name"], results, digits=4))


def warm_up(options: Options, stack: RunningStack) -> None:
    """Every gateway, worker and client path once, at small size."""
    count = 2 * max(len(stack.ports), stack.plan.num_workers)
    brief = replace(options, frames=min(40, options.frames))
    measured_run(brief, stack, [0.0] * count, AudioFormat.PCM, 10**6)


if __name__ == "__main__":
    main()
