"""`gepard plan`: how many workers, gateways and how large a Redis so many streams need, from measured figures."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
import msgspec

from shared.formats import FORMATS, AudioFormat
from shared.settings import Settings
from voices.profile_cache import MAX_PROFILES

_FIGURES = Path(__file__).with_name("figures.yaml")
# Of each core and each worker so much is planned for; the rest is for bursts, and for one part that restarts.
_DEFAULT_LOAD = 0.7
_PCM_BITS = 16
_KBIT = 1000
_MB = 1_000_000

Model = Literal["hibari", "gepard"]


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A measured value and where it was measured; None: nobody has."""

    value: float | None
    source: str

    def __post_init__(self) -> None:
        if self.value is not None and not self.source:
            raise ValueError("a figure needs its source")


class WorkerFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One worker: of Gepard, one GPU."""

    streams: Figure
    cores: Figure
    memory_mb: Figure


class Figures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of figures.yaml."""

    workers: dict[Model, WorkerFigures]
    gateway_cpu_ms: Figure
    redis_cpu_ms: Figure
    redis_empty_mb: Figure
    redis_bytes_per_payload_byte: Figure
    profile_kb: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is planned for. `reply_s`: the longest usual reply; `load`: the share of a part that is planned for."""

    streams: int
    model: Model
    audio_format: AudioFormat
    reply_s: float
    load: float
    streams_per_worker: Figure | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the plan. `amount` None: it cannot be said, and `source` says why."""

    subject: str
    amount: str | None
    source: str


def read_figures(path: Path = _FIGURES) -> Figures:
    """The figures of this version."""
    return msgspec.yaml.decode(path.read_bytes(), type=Figures)


def plan_lines(wanted: Wanted, figures: Figures) -> Iterator[Line]:
    """The plan, part by part."""
    yield from _workers(wanted, figures.workers[wanted.model])
    yield _gateways(wanted, figures.gateway_cpu_ms)
    yield from _redis(wanted, figures)
    rate = bits_per_second(wanted.audio_format)
    megabits = wanted.streams * rate / _KBIT / 1000
    yield Line(
        "bandwidth to clients",
        f"{megabits:.0f} Mbit/s",
        f"{wanted.streams} x {rate / _KBIT:g} kbit/s of {wanted.audio_format.value}, less headers",
    )
    yield Line(
        "bandwidth of Redis", f"{megabits:.0f} Mbit/s in, the same out", "every byte passes through it once each way"
    )


def bits_per_second(audio_format: AudioFormat) -> int:
    """What a format sends by default; for flac, which has no rate of its own, that of pcm as its bound."""
    spec = FORMATS[audio_format]
    if spec.bit_rates:
        return spec.bit_rates[spec.default_rate_hz].default
    if audio_format in (AudioFormat.ULAW, AudioFormat.ALAW):
        return 8 * spec.default_rate_hz
    return _PCM_BITS * spec.default_rate_hz


def _workers(wanted: Wanted, figures: WorkerFigures) -> Iterator[Line]:
    unit = "GPUs, one worker each" if wanted.model == "gepard" else "workers"
    streams = wanted.streams_per_worker or figures.streams
    if streams.value is None:
        yield Line(
            unit,
            None,
            "not measured: find the most streams without an underrun on your hardware (gepard bench --concurrency N), "
            "and plan with --streams-per-worker N",
        )
        return
    number = max(1, math.ceil(wanted.streams / (wanted.load * streams.value)))
    per_worker = f"{streams.value:g} streams each at {wanted.load:.0%}: {streams.source}"
    yield Line(unit, f"{number}", per_worker)
    for subject, figure, suffix in (
        ("CPU cores of workers", figures.cores, ""),
        ("memory of workers", figures.memory_mb, " MB"),
    ):
        if figure.value is None:
            yield Line(subject, None, "not measured")
        else:
            yield Line(subject, f"{number * figure.value:g}{suffix}", f"{figure.value:g} each: {figure.source}")


def _gateways(wanted: Wanted, cpu_ms: Figure) -> Line:
    if cpu_ms.value is None:
        return Line("gateways", None, "not measured")
    cores = wanted.streams * cpu_ms.value / 1000
    # A gateway is one process on one core; with two, one may restart.
    number = max(2, math.ceil(cores / wanted.load) + (1 if cores > wanted.load else 0))
    return Line(
        "gateways",
        f"{number}, on {number} cores",
        f"{cores:.2g} cores of work, and one to spare: {cpu_ms.value:g} ms of CPU a second of audio, {cpu_ms.source}",
    )


def _redis(wanted: Wanted, figures: Figures) -> Iterator[Line]:
    if figures.redis_cpu_ms.value is None:
        yield Line("Redis", None, "not measured")
    else:
        share = wanted.streams * figures.redis_cpu_ms.value / 1000
        ceiling = math.floor(1000 * wanted.load / figures.redis_cpu_ms.value)
        number = max(1, math.ceil(share / wanted.load))
        each = "" if number == 1 else ", each with a stack of its own"
        yield Line(
            "Redis",
            f"{number}{each}",
            f"{share:.0%} of a core, and one carries some {ceiling} streams at {wanted.load:.0%}: "
            f"{figures.redis_cpu_ms.value:g} ms of CPU a second of audio, {figures.redis_cpu_ms.source}",
        )
    parts = figures.redis_empty_mb, figures.redis_bytes_per_payload_byte, figures.profile_kb
    empty_mb, overhead, profile_kb = (figure.value for figure in parts)
    if empty_mb is None or overhead is None or profile_kb is None:
        yield Line("memory of Redis", None, "not measured")
        return
    unread_mb = wanted.streams * wanted.reply_s * bits_per_second(wanted.audio_format) / 8 * overhead / _MB
    profiles_mb = MAX_PROFILES * profile_kb / 1000 if wanted.model == "gepard" else 0
    yield Line(
        "memory of Redis",
        f"{empty_mb + unread_mb + profiles_mb:.0f} MB at worst",
        f"replies of {wanted.reply_s:g} s that no client has read yet: {unread_mb:.0f} MB; profiles of voices: "
        f"{profiles_mb:.0f} MB; {parts[1].source}",
    )


@click.command()
@click.option("--streams", type=click.IntRange(min=1), required=True, help="Replies being spoken at the same time.")
@click.option("--model", type=click.Choice(["hibari", "gepard"]), help="Engine (default: worker.engine).")
@click.option(
    "--format",
    "audio_format",
    type=click.Choice([audio_format.value for audio_format in AudioFormat]),
    default=AudioFormat.MP3.value,
    show_default=True,
)
@click.option("--reply-seconds", type=click.FloatRange(min=1), default=30.0, show_default=True, help="A long reply.")
@click.option("--load", type=click.FloatRange(0.1, 1.0), default=_DEFAULT_LOAD, show_default=True, help="Of each part.")
@click.option("--streams-per-worker", type=click.IntRange(min=1), help="Measured on your own hardware.")
@click.pass_obj
def plan(
    settings: Settings,
    streams: int,
    model: Model | None,
    audio_format: str,
    reply_seconds: float,
    load: float,
    streams_per_worker: int | None,
) -> None:
    """Reckon workers, gateways, Redis and bandwidth for so many streams, from measured figures.

    What nobody has measured is said to be so, not guessed.
    """
    engine: Model = model or settings.worker.engine
    own = None if streams_per_worker is None else Figure(float(streams_per_worker), "--streams-per-worker")
    wanted = Wanted(
        streams=streams,
        model=engine,
        audio_format=AudioFormat(audio_format),
        reply_s=reply_seconds,
        load=load,
        streams_per_worker=own,
    )
    click.echo(f"{streams} streams of {engine} as {audio_format}, in proportion to what smaller loads used:\n")
    for line in plan_lines(wanted, read_figures()):
        click.echo(f"{line.subject:24}{line.amount or 'unknown'}\n{'':24}({line.source})")
