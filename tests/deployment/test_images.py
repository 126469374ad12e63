"""The Dockerfiles: linted, and held to what they promise. Their install steps: test_install_steps.py."""

import re
import subprocess
import sys
import tomllib

import pytest

from shared.settings import environment_variables
from tests.support.compose import ROOT, entrypoint, environment, instructions
from tests.support.tools import tool

DOCKERFILES = ("Dockerfile", "Dockerfile.gpu")


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_hadolint_finds_nothing(dockerfile: str):
    done = subprocess.run([tool("hadolint"), ROOT / dockerfile], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_the_image_runs_as_a_user_who_can_do_nothing(dockerfile: str):
    last_stage = instructions(dockerfile)
    last_stage = last_stage[max(index for index, (name, _) in enumerate(last_stage) if name == "FROM") :]
    assert [value for name, value in last_stage if name == "USER"] == ["10001:10001"]
    assert not any("apt-get" in value for name, value in last_stage if name == "RUN")
    assert entrypoint(dockerfile) == ["gepard"]


@pytest.mark.parametrize(("dockerfile", "part"), [("Dockerfile", "gateway"), ("Dockerfile.gpu", "worker")])
def test_the_health_command_exists_and_names_what_the_image_runs(dockerfile: str, part: str):
    ((_, health),) = [pair for pair in instructions(dockerfile) if pair[0] == "HEALTHCHECK"]
    assert health.endswith(f'CMD ["gepard", "check", "{part}"]')
    ((_, command),) = [pair for pair in instructions(dockerfile) if pair[0] == "CMD"]
    assert f'"{part}"' in command
    done = subprocess.run(
        [sys.executable, "-m", "cli", "check", part, "--help"], capture_output=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_the_image_sets_only_settings_there_are(dockerfile: str):
    given = {name for name in environment(dockerfile) if name.startswith("GEPARD_")}
    assert given <= set(environment_variables())
    assert "GEPARD_DATA_DIR" in given


def test_no_weights_and_no_secrets_reach_a_build():
    """Only what the wheel is made of is let through, so that nothing else can be."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    allowed = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(packages["packages"]) | set(packages["force-include"]) <= allowed
    assert not any(re.search(r"\.env|models|data|tests", rule) for rule in allowed)
    assert all((ROOT / rule).exists() for rule in allowed)
    for dockerfile in DOCKERFILES:
        copied = [
            value for name, value in instructions(dockerfile) if name in ("COPY", "ADD") and "--from" not in value
        ]
        assert all(not re.search(r"https?://|\.safetensors|\.nemo", value) for value in copied)


def test_the_gpu_image_pins_what_the_project_runs_on():
    pins = dict(
        line.split("==")
        for line in (ROOT / "deploy/docker/constraints-gpu.txt").read_text().splitlines()
        if "==" in line
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in project["dependencies"]:
        name = re.match(r"[a-zA-Z0-9-]+", requirement)
        assert name is not None
        assert name[0].lower() in pins, requirement
    assert pins["vllm"] == "0.25.1"
    assert pins["arq"] == "0.28.0"
