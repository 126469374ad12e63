"""A run as a JSON file and as a table."""

from collections.abc import Iterator, Sequence

import msgspec
from rich.table import Table

from cli.bench.client_health import ClientHealth
from cli.bench.host import Host
from cli.bench.stream import Measured, Stream
from cli.bench.summary import Spread, Summary


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, enough to ask for it again; never the key. `texts`: a file's name or "built-in"."""

    url: str
    model: str
    voice: str
    format: str
    speed: float | None
    concurrency: int | None
    rate_per_s: float | None
    duration_s: float | None
    requests: int | None
    warm_up: int
    seed: int
    texts: str


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """How the client fared. `cpu_share`: of one core. `lag_ms`: of its event loop, 99th percentile."""

    cpu_share: float
    cpu_s: float
    lag_ms: float


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Each stream, in the order of their ends; null where a stream failed."""

    start_s: list[float]
    words: list[int]
    error: list[str]
    first_audio_ms: list[float | None]
    total_ms: list[float | None]
    audio_s: list[float | None]
    deficit_ms: list[float | None]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `load_average`: of the machine before and after; what else ran on it disturbs."""

    version: str
    commit: str | None
    date: str
    note: str
    host: Host
    load_average: tuple[float | None, float | None]
    asked: Asked
    summary: Summary
    client: Client
    streams: Columns

    def json(self) -> bytes:
        """One line for each part: short, and readable in a diff."""
        parts = [
            msgspec.json.encode(name) + b": " + msgspec.json.format(msgspec.json.encode(value), indent=0)
            for name, value in msgspec.structs.asdict(self).items()
        ]
        return b"{\n" + b",\n".join(parts) + b"\n}\n"


def client_figures(health: ClientHealth) -> Client:
    """Rounded for the file."""
    return Client(
        cpu_share=round(health.cpu_share, 3), cpu_s=round(health.cpu_s, 3), lag_ms=round(1000 * health.lag_p99_s, 2)
    )


def columns(streams: Sequence[Stream], measured: Sequence[Measured | None], began: float) -> Columns:
    """The streams of a run; `began`: `time.perf_counter` at its start."""

    def each(value: str, scale: float) -> list[float | None]:
        return [None if figures is None else round(scale * getattr(figures, value), 4) for figures in measured]

    return Columns(
        start_s=[round(stream.due - began, 4) for stream in streams],
        words=[len(stream.text.split()) for stream in streams],
        error=[stream.error for stream in streams],
        first_audio_ms=each("first_audio_s", 1000),
        total_ms=each("total_s", 1000),
        audio_s=each("audio_s", 1),
        deficit_ms=each("deficit_s", 1000),
    )


def load_in_words(asked: Asked) -> str:
    """How the server was loaded."""
    return f"{asked.rate_per_s:g} requests/s" if asked.rate_per_s is not None else f"{asked.concurrency} at a time"


def table(result: Result) -> Table:
    """The summary for a terminal."""
    asked, summary = result.asked, result.summary
    grid = Table(
        title=f"{asked.model} {asked.voice} {asked.format}, {load_in_words(asked)}",
        caption="\n".join(_facts(result)),
        title_justify="left",
        caption_justify="left",
    )
    grid.add_column("")
    for heading in Spread.__struct_fields__:
        grid.add_column(heading, justify="right", min_width=9)
    for name, values, form in (
        ("first audio, ms", summary.first_audio_ms, ".0f"),
        ("real-time factor", summary.real_time_factor, ".3f"),
        ("deficit, ms", summary.deficit_ms, ".0f"),
    ):
        cells = ["-"] * 4 if values is None else [format(value, form) for value in msgspec.structs.astuple(values)]
        grid.add_row(name, *cells)
    return grid


def _facts(result: Result) -> Iterator[str]:
    summary, client = result.summary, result.client
    yield f"{summary.completed} of {summary.requests} streams completed, {summary.times_real_time:.2f} x real time"
    if summary.errors:
        yield "errors: " + ", ".join(f"{code} {count}" for code, count in summary.errors.items())
    if summary.underrun_share is not None:
        yield f"underrun: {summary.underrun_share:.1%} of streams"
    yield f"client: {client.cpu_share:.0%} of a core, {client.lag_ms:.1f} ms late (p99)"
