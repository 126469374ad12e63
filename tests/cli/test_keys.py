"""gepard keys: what an operator sees."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import main
from shared.settings import LogSettings
from shared.telemetry import configure_logging
from voices.api_keys import hash_key

ROOT = Path(__file__).parents[2]


@pytest.fixture
def gepard(tmp_path):
    """Runs a command on an empty data folder."""
    data = tmp_path / "data"

    def run(*arguments: str, **environment: str):
        return CliRunner().invoke(main, arguments, env={"GEPARD_DATA_DIR": str(data), **environment})

    yield run
    # The command has sent the log to a stream that is closed now.
    configure_logging(LogSettings(level="info", format="json"), process="test")


def test_a_new_key_is_alone_on_the_standard_output(gepard):
    result = gepard("keys", "create", "laptop")
    assert result.exit_code == 0, result.output
    key = result.stdout.strip()
    assert result.stdout == f"{key}\n"
    assert key.startswith("gp-")
    assert "not shown again" in result.stderr


def test_the_list_shows_everything_but_the_key(gepard):
    limits = ("--requests-per-minute", "60", "--characters-per-day", "100000", "--concurrent-streams", "2")
    key = gepard("keys", "create", "laptop", *limits).stdout.strip()
    gepard("keys", "create", "phone")
    gepard("keys", "revoke", "phone")
    listed = gepard("keys", "list", COLUMNS="200").stdout
    assert key not in listed
    assert hash_key(key) not in listed
    laptop, phone = listed.splitlines()[1:]
    for shown in ("key_", "laptop", f"{key[:8]}…", "60 requests/min, 100000 characters/day, 2 streams"):
        assert shown in laptop
    assert laptop.rstrip().endswith("-")
    assert "none" in phone
    assert phone.split()[-2].startswith("20")


def test_the_list_can_be_read_by_programs(gepard):
    gepard("keys", "create", "laptop", "--concurrent-streams", "2")
    (entry,) = json.loads(gepard("keys", "list", "--json").stdout)
    assert entry["name"] == "laptop"
    assert entry["limits"] == {"requests_per_minute": None, "characters_per_day": None, "concurrent_streams": 2}
    assert "hash" not in entry


def test_an_empty_list_says_what_that_means(gepard):
    result = gepard("keys", "list", COLUMNS="200")
    assert "only this machine is served" in result.stdout


def test_revoking_names_what_was_revoked_or_what_to_do(gepard):
    gepard("keys", "create", "laptop")
    assert "Revoked 'laptop' (key_" in gepard("keys", "revoke", "laptop").stderr
    again = gepard("keys", "revoke", "laptop")
    assert again.exit_code == 1
    assert "gepard keys list" in again.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("",),
        ("a" * 101,),
        ("line\nbreak",),
        ("laptop", "--concurrent-streams=0"),
        ("laptop", "--requests-per-minute=-1"),
    ],
)
def test_names_and_limits_that_make_no_sense_are_refused(gepard, arguments):
    assert gepard("keys", "create", *arguments).exit_code == 2
    assert json.loads(gepard("keys", "list", "--json").stdout) == []


def test_the_data_folder_of_serve_can_be_named(gepard, tmp_path):
    gepard("keys", "--data-dir", str(tmp_path / "other"), "create", "laptop")
    assert (tmp_path / "other" / "gepard.db").exists()
    assert json.loads(gepard("keys", "list", "--json").stdout) == []


def test_a_database_that_cannot_be_used_is_one_line_without_the_password(gepard):
    result = gepard("keys", "list", GEPARD_DATABASE_URL="postgresql://me:hunter2@127.0.0.1:1/gepard")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: the database postgresql")
    assert "hunter2" not in result.output


def test_an_installed_wheel_makes_its_database_in_an_empty_folder(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    assert not (site / "alembic").exists()
    script = (
        "import runpy, sys, alembic, voices; assert voices.__file__.startswith(sys.argv[1]), voices.__file__;"
        "assert alembic.__file__; sys.argv[:] = ['gepard', 'keys', 'create', 'laptop'];"
        "runpy.run_module('cli', run_name='__main__')"
    )
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(site)],
        cwd=empty,
        env={**os.environ, "PYTHONPATH": str(site), "GEPARD_DATA_DIR": str(empty / "data")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("gp-")
