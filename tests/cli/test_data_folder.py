from pathlib import Path

import pytest

from cli.data_folder import owned
from shared.errors import SettingsError


def test_it_is_made_for_this_user_alone(tmp_path: Path):
    folder = tmp_path / "new" / "data"
    with owned(folder):
        assert folder.stat().st_mode & 0o077 == 0


def test_it_has_one_owner_at_a_time(tmp_path: Path):
    with owned(tmp_path), pytest.raises(SettingsError, match=f"already running with the data folder {tmp_path}"):
        owned(tmp_path).__enter__()
    with owned(tmp_path):
        pass


@pytest.mark.parametrize("name", ["file", "file/data"])
def test_one_that_cannot_be_written_is_named(name: str, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=f"cannot write to the data folder {tmp_path / name}"):
        owned(tmp_path / name).__enter__()


def test_a_lock_that_cannot_be_written_is_said_so(tmp_path: Path):
    (tmp_path / "lock").mkdir()
    with pytest.raises(SettingsError, match=f"cannot write to the data folder {tmp_path}: Is a directory"):
        owned(tmp_path).__enter__()
