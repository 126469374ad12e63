"""What a second of speech costs each part: CPU time and memory of gateway, worker and Valkey.

`python -m benchmarks.parts_cost`; README.md says what the numbers mean, and `gepard plan` reckons with them.
"""

import asyncio
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import click
from redis import Redis

from benchmarks.http_timing import free_port
from benchmarks.processes import cpu_seconds, python, running_stack, running_valkey
from benchmarks.report import write
from shared.broker import keys
from shared.broker.connection import connect
from shared.broker.events import ReplyWriter
from shared.contracts import Audio, JobId, ProfileJob, Started, WorkerId

FORMATS = ("pcm", "mp3", "opus")
REPLY_S = 30
SECOND = bytes(48_000)
"""A second of pcm at 24 kHz."""


@click.command()
@click.option("--concurrency", default=8, show_default=True, help="Requests at a time.")
@click.option("--duration", default=15.0, show_default=True, help="Seconds for each format.")
def main(concurrency: int, duration: float) -> None:
    """Measure, print the result and write results/parts_cost.json."""
    costs: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="gepard-bench-") as name:
        folder, port = Path(name), free_port()
        with running_valkey(folder) as (redis_url, valkey_pid):
            with running_stack(redis_url, folder, port) as parts:
                pids = {**parts, "valkey": valkey_pid}
                for audio_format in FORMATS:
                    load(port, audio_format, concurrency, 3.0, folder)  # warm
                    before = {part: cpu_seconds(pid) for part, pid in pids.items()}
                    audio_s, num_requests = load(port, audio_format, concurrency, duration, folder)
                    used = {part: cpu_seconds(pid) - before[part] for part, pid in pids.items()}
                    costs[audio_format] = {
                        "audio_s": audio_s,
                        "requests": num_requests,
                        "cpu_ms_per_audio_s": {part: 1000 * seconds / audio_s for part, seconds in used.items()},
                    }
                peaks = {part: peak_memory_mb(pid) for part, pid in pids.items()}
            memory = unread_reply(redis_url)
    results = {
        "concurrency": concurrency,
        "duration_s": duration,
        "formats": costs,
        "peak_memory_mb": peaks,
        "valkey_memory": memory,
    }
    print(json.dumps(results, indent=2))
    print(f"Written: {write('parts_cost', results)}")


def load(port: int, audio_format: str, concurrency: int, duration_s: float, folder: Path) -> tuple[float, int]:
    """Seconds of audio of all replies, and how many there were."""
    output = folder / "bench.json"
    options = ["--url", f"http://127.0.0.1:{port}/v1", "--format", audio_format, "--warm-up", "0"]
    options += ["--concurrency", str(concurrency), "--duration", str(duration_s), "-o", str(output)]
    subprocess.run(python("cli", "bench", *options), check=True, stdout=subprocess.DEVNULL)
    result = json.loads(output.read_text(encoding="utf-8"))
    if result["summary"]["errors"]:
        raise RuntimeError(f"requests failed: {result['summary']['errors']}")
    return sum(result["streams"]["audio_s"]), result["summary"]["requests"]


def peak_memory_mb(pid: int) -> float:
    """The most memory that a process had at once (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024 / 1e6


def unread_reply(redis_url: str) -> dict[str, float]:
    """Valkey's memory for a reply of pcm that no one has read yet, by its payload; and empty."""
    job = ProfileJob(id=JobId("a" * 24), attempt=1, model="x", sha256="0" * 64, deadline=0.0)

    async def fill() -> None:
        redis = connect(redis_url, max_connections=1)
        writer = ReplyWriter(redis, job, ttl_s=60, max_bytes=2**30)
        await writer.begin(Started(worker=WorkerId("w")))
        for number in range(REPLY_S):
            await writer.write(Audio(seq=number, packets=1, data=SECOND, audio_s=1.0, resume=b""))
        await redis.aclose(close_connection_pool=True)

    with Redis.from_url(redis_url) as redis:
        redis.flushall()
        empty = redis.info("memory")["used_memory"]
        asyncio.run(fill())
        used = redis.memory_usage(keys.reply(job.id, job.attempt), samples=0)
    return {"bytes_per_payload_byte": used / (REPLY_S * len(SECOND)), "empty_bytes": empty}


if __name__ == "__main__":
    main()
