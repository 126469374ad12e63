"""How many events a worker process and a gateway process carry: an engine that costs nothing, the rest is real.

    python -m benchmarks.relay_path [--format pcm] [--streams 64]

Valkey, one worker with that engine, one gateway, clients on loopback. An event is a second of sound. Told is the CPU
time an event costs each process: its inverse is what one core of it can carry, whatever else the machine does.
"""

import asyncio
import contextlib
import signal
import statistics
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import click
import numpy as np
import uvloop

from benchmarks.gpu.load import Ask, run_load
from benchmarks.http_timing import free_port, get_status
from benchmarks.processes import cpu_seconds, python, running, running_valkey, wait_for
from benchmarks.report import write
from shared.clip import Clip
from shared.contracts import EngineInfo, Preset, TextBudget
from shared.errors import EngineError
from shared.formats import AudioFormat
from shared.settings import RedisSettings, Settings, WorkerSettings
from shared.telemetry import configure_logging
from workers.engines.base import PcmChunk, SpeakerProfile, SynthesisRequest
from workers.worker import run_worker

_RATE_HZ = 22050
_CHUNK_FRAMES = 22
_CHUNK_SAMPLES = 1024 * _CHUNK_FRAMES
_NUM_CHUNKS = 20
_SOUND = (0.1 * np.random.default_rng(0).standard_normal(_CHUNK_SAMPLES)).astype(np.float32)


class NoiseEngine:
    """Twenty chunks of a second of ready-made noise, with codes as Gepard's to resume from."""

    info = EngineInfo(
        model="noise",
        revision="1",
        sample_rate_hz=_RATE_HZ,
        frame_s=1024 / _RATE_HZ,
        languages=("en",),
        scripts=("Latin",),
        text_budget=TextBudget(minimum=1, first=200, target=200, maximum=200),
        presets=(Preset(name="noise", description="noise"),),
        can_clone=False,
        can_guide=False,
        can_resume=True,
        capacity=1024,
    )
    is_available = True
    host = None

    async def start(self) -> None:
        """Nothing to load."""

    async def stop(self) -> None:
        """Nothing to free."""

    async def profile(self, clip: Clip) -> SpeakerProfile:  # noqa: ARG002
        """There is none."""
        raise EngineError("noise has no voice")

    async def synthesize(self, request: SynthesisRequest) -> AsyncGenerator[PcmChunk, None]:  # noqa: ARG002
        """The same for every request."""
        for _ in range(_NUM_CHUNKS):
            # An engine's chunks come from elsewhere: other streams have their turn.
            await asyncio.sleep(0)
            yield PcmChunk(samples=_SOUND, frames=_CHUNK_FRAMES, resume=bytes(32 * _CHUNK_FRAMES))


async def _work(redis_url: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = Settings(model="noise", redis=RedisSettings(url=redis_url), worker=WorkerSettings(drain_s=0))
    configure_logging(settings.log, process="worker")
    await run_worker(NoiseEngine(), settings, stop=stop)


@contextlib.contextmanager
def _parts(folder: Path) -> Iterator[tuple[int, dict[str, int]]]:
    """Port of the gateway, and the process ids."""
    port = free_port()
    with running_valkey(folder) as (url, valkey):
        gateway = [*python("cli", "--config", str(folder / "config.yaml"), "gateway", "--redis-url", url)]
        (folder / "config.yaml").write_text(
            f"model: noise\ndefault_voice: noise\ndata_dir: {folder}\nlimits: {{max_pending: 4096}}\n"
            "redis: {max_connections: 4096}\n",
            encoding="utf-8",
        )
        with (
            running(python("benchmarks.relay_path", "--worker", url), folder / "worker.log") as worker,
            running([*gateway, "--port", str(port)], folder / "gateway.log") as process,
        ):
            wait_for(lambda: get_status(port, "/ready") == 200 or None)
            yield port, {"worker": worker.pid, "gateway": process.pid, "valkey": valkey}


def _round(port: int, pids: dict[str, int], streams: int, audio_format: AudioFormat, sse: bool) -> dict[str, float]:
    """Milliseconds of CPU an event, by process."""
    body = {"model": "noise", "voice": "noise", "input": "Noise.", "response_format": audio_format.value}
    body["stream_format"] = "sse" if sse else "audio"
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    # Server-sent events are counted as they come, whatever is in them.
    read_as = AudioFormat.PCM if sse else audio_format
    reports = run_load(
        [Ask(at_s=0.0, port=port, body=body) for _ in range(streams)], read_as, num_clients=2, timeout_s=120
    )
    if errors := [outcome.error for report in reports for outcome in report.outcomes if outcome.error]:
        raise click.ClickException(f"{len(errors)} streams failed: {errors[0]}")
    events = streams * _NUM_CHUNKS
    return {name: 1000 * (cpu_seconds(pid) - before[name]) / events for name, pid in pids.items()}


@click.command()
@click.option("--format", "audio_format", type=click.Choice([each.value for each in AudioFormat]), default="pcm")
@click.option("--sse", is_flag=True, help="As server-sent events.")
@click.option("--streams", default=64, show_default=True, help="At once.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--worker", "worker_of", hidden=True, help="Be the worker, on that Redis.")
@click.option("--save", is_flag=True, help="Write results/relay_path.json.")
def main(audio_format: str, sse: bool, streams: int, rounds: int, worker_of: str | None, save: bool) -> None:
    """Measure, and print milliseconds of CPU an event and events a second for a core."""
    if worker_of is not None:
        uvloop.run(_work(worker_of))
        return
    with tempfile.TemporaryDirectory(prefix="gepard-bench-") as name, _parts(Path(name)) as (port, pids):
        _round(port, pids, streams, AudioFormat(audio_format), sse)
        costs = [_round(port, pids, streams, AudioFormat(audio_format), sse) for _ in range(rounds)]
    medians = {name: statistics.median(cost[name] for cost in costs) for name in costs[0]}
    for part, cost_ms in medians.items():
        click.echo(f"{part:<10}{cost_ms:>8.3f} ms an event{1000 / cost_ms:>8.0f} events a second for a core")
    if save:
        asked = {"format": audio_format, "sse": sse, "streams": streams, "command": " ".join(sys.argv[1:])}
        click.echo(write("relay_path", {**asked, "cpu_ms_per_event": medians}, digits=4))


if __name__ == "__main__":
    main()
