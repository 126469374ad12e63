"""`gepard bench`: load a server with speech requests and measure what its listeners would hear."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import click
import uvloop
from rich.console import Console

from cli.bench.client import SpeechClient, Target
from cli.bench.client_health import ClientHealth, watched
from cli.bench.host import commit, load_average, this_host
from cli.bench.load import Bounds, closed_loop, open_loop
from cli.bench.plot import require_matplotlib, save_plot
from cli.bench.report import Asked, Result, client_figures, columns, table
from cli.bench.stream import Stream, measure
from cli.bench.summary import summarise
from cli.bench.texts import composed_texts, read_texts, texts_of
from cli.version import VERSION
from shared.errors import GepardError
from shared.formats import AudioFormat

_DEFAULT_DURATION_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run. Either `concurrency` (closed loop) or `rate_per_s` (open loop) is set."""

    target: Target
    concurrency: int | None
    rate_per_s: float | None
    max_in_flight: int
    bounds: Bounds
    warm_up: int
    seed: int
    texts: Path | None
    note: str


@click.command()
@click.option("--url", required=True, help="Base URL of the API, e.g. http://127.0.0.1:8000/v1.")
@click.option("--api-key", envvar="OPENAI_API_KEY", default="none", help="Key to send ($OPENAI_API_KEY).")
@click.option("--model", default="tts-1", show_default=True)
@click.option("--voice", default="alloy", show_default=True)
@click.option(
    "--format",
    "audio_format",
    type=click.Choice([audio_format.value for audio_format in AudioFormat]),
    default=AudioFormat.PCM.value,
    show_default=True,
)
@click.option("--speed", type=click.FloatRange(0.25, 4.0), help="Sent only if given.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Closed loop: so many requests at all times.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Open loop: Poisson arrivals per second.")
@click.option(
    "--max-in-flight",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    help="Open loop: arrivals beyond so many unanswered requests count as errors.",
)
@click.option(
    "--duration",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds in which requests are begun (default: 30, unless --requests is given).",
)
@click.option("--requests", type=click.IntRange(min=1), help="Number of requests.")
@click.option(
    "--warm-up", type=click.IntRange(min=0), default=2, show_default=True, help="Requests before, not counted."
)
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=120.0, show_default=True, help="Seconds."
)
@click.option("--texts", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File with a text a line.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of texts and arrivals.")
@click.option("--note", default="", help="Words to keep with the result, e.g. the server's hardware.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="JSON file to write.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="PNG file to write.")
def bench(
    *,
    url: str,
    api_key: str,
    model: str,
    voice: str,
    audio_format: str,
    speed: float | None,
    concurrency: int | None,
    rate: float | None,
    max_in_flight: int,
    duration: float | None,
    requests: int | None,
    warm_up: int,
    timeout: float,
    texts: Path | None,
    seed: int,
    note: str,
    output: Path | None,
    plot: Path | None,
) -> None:
    """Measure any OpenAI-compatible speech server: first audio, real-time factor, underruns."""
    if concurrency is not None and rate is not None:
        raise click.UsageError("--concurrency is a closed loop and --rate an open one; choose one")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise click.UsageError(f"--url is a base URL such as http://127.0.0.1:8000/v1, not {url}")
    if plot is not None:
        require_matplotlib()
    plan = Plan(
        target=Target(
            url=url,
            api_key=api_key,
            model=model,
            voice=voice,
            audio_format=AudioFormat(audio_format),
            speed=speed,
            timeout_s=timeout,
        ),
        concurrency=None if rate is not None else concurrency or 1,
        rate_per_s=rate,
        max_in_flight=max_in_flight,
        bounds=Bounds(
            duration_s=_DEFAULT_DURATION_S if duration is None and requests is None else duration, count=requests
        ),
        warm_up=warm_up,
        seed=seed,
        texts=texts,
        note=note,
    )
    result, health = uvloop.run(run(plan))
    console = Console()
    console.print(table(result))
    if warning := health.warning():
        click.echo(f"Warning: {warning}.", err=True)
    try:
        if output is not None:
            output.write_bytes(result.json())
        if plot is not None:
            save_plot(result, plot)
    except OSError as error:
        raise GepardError(f"cannot write {error.filename}: {error.strerror}") from error
    if result.summary.completed == 0:
        raise GepardError("no stream came to its end")


async def run(plan: Plan) -> tuple[Result, ClientHealth]:
    """Warm up, load, and make the figures after the last stream has ended."""
    texts = _texts(plan, plan.seed)
    load_before, date = load_average(), datetime.now(UTC).isoformat(timespec="seconds")
    async with SpeechClient(plan.target) as client:
        if plan.warm_up:
            # Of another seed: the counted texts are the same with and without warm-up.
            warm_texts = _texts(plan, plan.seed + 1)
            at_once = min(plan.warm_up, plan.concurrency or 1)
            await closed_loop(client.speak, warm_texts, Bounds(count=plan.warm_up), concurrency=at_once)
        async with watched() as health:
            began = time.perf_counter()
            streams = await _load(plan, client, texts)
    measured = [measure(stream) for stream in streams]
    result = Result(
        version=VERSION,
        commit=commit(),
        date=date,
        note=plan.note,
        host=this_host(),
        load_average=(load_before, load_average()),
        asked=_asked(plan),
        summary=summarise(streams, measured, began=began, duration_s=plan.bounds.duration_s),
        client=client_figures(health),
        streams=columns(streams, measured, began),
    )
    return result, health


async def _load(plan: Plan, client: SpeechClient, texts: Iterator[str]) -> list[Stream]:
    if plan.rate_per_s is not None:
        return await open_loop(
            client.speak,
            texts,
            plan.bounds,
            rate_per_s=plan.rate_per_s,
            seed=plan.seed,
            max_in_flight=plan.max_in_flight,
        )
    return await closed_loop(client.speak, texts, plan.bounds, concurrency=plan.concurrency or 1)


def _texts(plan: Plan, seed: int) -> Iterator[str]:
    return composed_texts(seed) if plan.texts is None else texts_of(read_texts(plan.texts), seed)


def _asked(plan: Plan) -> Asked:
    target, parts = plan.target, urlsplit(plan.target.url)
    return Asked(
        # A URL may hold a name and a password.
        url=parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl(),
        model=target.model,
        voice=target.voice,
        format=target.audio_format.value,
        speed=target.speed,
        concurrency=plan.concurrency,
        rate_per_s=plan.rate_per_s,
        duration_s=plan.bounds.duration_s,
        requests=plan.bounds.count,
        warm_up=plan.warm_up,
        seed=plan.seed,
        texts="built-in" if plan.texts is None else plan.texts.name,
    )
