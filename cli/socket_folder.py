"""Where Unix sockets lie: their paths must be short."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from shared.errors import SettingsError

# The longest path a Unix socket can have is 108 bytes on Linux and 104 on macOS, its end mark included.
_MAX_SOCKET_PATH_BYTES = 100


@contextlib.contextmanager
def socket_folder(folder: Path, socket_name: str) -> Iterator[Path]:
    """The folder itself, or a temporary one where the socket's path would be too long for the system."""
    if _fits(folder, socket_name):
        yield folder
        return
    try:
        temporary = tempfile.TemporaryDirectory(prefix="gepard-", ignore_cleanup_errors=True)
    except OSError as error:
        raise SettingsError(f"the path of {folder} is too long for a Unix socket: {error}") from error
    with temporary as name:
        if not _fits(Path(name), socket_name):
            raise SettingsError(f"the paths {folder} and {name} are too long for a Unix socket; choose a shorter one")
        yield Path(name)


def _fits(folder: Path, socket_name: str) -> bool:
    return len(os.fsencode(folder / socket_name)) <= _MAX_SOCKET_PATH_BYTES
