"""The data folder and its locks."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from shared.errors import SettingsError


def make_folder(folder: Path) -> None:
    """Create a folder that only this user can read. Raises SettingsError when it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _unwritable(folder, error) from error


def open_lock(folder: Path) -> TextIO:
    """The folder's lock file, not yet locked. Raises SettingsError when the folder cannot be written."""
    try:
        return (folder / "lock").open("w")
    except OSError as error:
        raise _unwritable(folder, error) from error


def try_lock(lock: TextIO) -> bool:
    """Lock until every process that holds the open file has closed it; False when others have it locked."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Own the data folder. Raises SettingsError when another serve does, or it cannot be written."""
    make_folder(folder)
    with open_lock(folder) as lock:
        if not try_lock(lock):
            raise SettingsError(
                f"`gepard serve` is already running with the data folder {folder}; "
                "stop it, or give this one a folder of its own (--data-dir)"
            )
        yield


def _unwritable(folder: Path, error: OSError) -> SettingsError:
    return SettingsError(
        f"cannot write to the data folder {folder}: {error.strerror}; choose another (--data-dir, data_dir)"
    )
