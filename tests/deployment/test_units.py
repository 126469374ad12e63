"""The systemd units are taken by systemd where it is there, and name commands and settings there are."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shared.settings import environment_variables
from tests.support.compose import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
PROGRAM = "/opt/gepard/bin/gepard"


@pytest.mark.parametrize("unit", UNITS, ids=[unit.name for unit in UNITS])
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: apt-get install systemd")
    copy = tmp_path / unit.name
    # It wants programs that exist.
    copy.write_text(unit.read_text().replace(PROGRAM, "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert unit.name not in done.stderr, done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=[unit.name for unit in UNITS])
def test_the_unit_runs_a_command_there_is(unit: Path):
    (command,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    program, *words = shlex.split(command.replace("%i", "8001"))
    assert program == PROGRAM
    done = subprocess.run([sys.executable, "-m", "cli", *words, "--help"], capture_output=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_units_set_only_settings_there_are_and_no_secret():
    known = set(environment_variables())
    for path in [*UNITS, ROOT / "deploy" / "systemd" / "gepard.env"]:
        names = re.findall(r"^(?:Environment=)?(GEPARD_\w+)=", path.read_text(), re.MULTILINE)
        assert {name.removesuffix("_FILE") for name in names} <= known, path
        assert not {"GEPARD_AUTH_API_KEY", "GEPARD_REDIS_URL", "GEPARD_DATABASE_URL"} & set(names), path


@pytest.mark.parametrize("unit", UNITS, ids=[unit.name for unit in UNITS])
def test_no_unit_runs_as_root(unit: Path):
    text = unit.read_text()
    for line in ("User=gepard", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=\n"):
        assert line in text
