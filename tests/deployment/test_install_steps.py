"""The install steps of the Dockerfile, run as they stand in it, in a clean environment: what it makes, speaks.

No step is written down twice: stages, COPY and RUN are read from the file, and only its folders become others.
"""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.compose import ROOT, instructions

pytestmark = pytest.mark.skipif(
    not (os.environ.get("INSTALL_STEPS") or os.environ.get("REQUIRE_ALL")),
    reason="takes a minute or two and the package index: INSTALL_STEPS=1 make test ARGS=tests/deployment",
)


def context(folder: Path) -> Path:
    """What .dockerignore lets through."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    for rule in rules:
        if rule.startswith("!"):
            source, target = ROOT / rule[1:], folder / rule[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                ignore = shutil.ignore_patterns(*(rule.removeprefix("**/") for rule in rules if rule.startswith("**/")))
                shutil.copytree(source, target, ignore=ignore)
            else:
                shutil.copy(source, target)
    return folder


def run_steps(dockerfile: str, folder: Path, python: str) -> Path:
    """Run all stages; returns the folder that stands for /opt/gepard."""
    built = context(folder / "context")
    opt, wheel = folder / "opt", folder / "wheel"
    stage = folder
    for number, (name, value) in enumerate(instructions(dockerfile)):
        if name == "FROM":
            stage = folder / f"stage-{number}"
            stage.mkdir()
        elif name == "COPY" and "--from" not in value:
            *sources, _ = value.split()
            for source in sources:
                found = [path for path in built.rglob("*") if fnmatch.fnmatch(str(path.relative_to(built)), source)]
                if source == ".":
                    shutil.copytree(built, stage, dirs_exist_ok=True)
                for path in found:
                    shutil.copy(path, stage)
        elif name == "RUN" and "useradd" not in value and "apt-get" not in value:
            words = [word for word in value.split() if not word.startswith("--mount=")]
            command = " ".join(words).replace("/opt/gepard", str(opt)).replace("/wheel", str(wheel))
            command = re.sub(r"(?<![/\w])python3?(?= )", python, command)
            env = {"PATH": os.environ["PATH"], "HOME": str(folder)} | {
                name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_"))
            }
            subprocess.run(command, shell=True, check=True, cwd=stage, env=env)
    return opt


@pytest.mark.timeout(900)
def test_what_the_steps_install_migrates_and_speaks(tmp_path: Path):
    opt = run_steps("Dockerfile", tmp_path, f"{sys.base_prefix}/bin/python3")
    gepard = opt / "bin" / "gepard"
    empty = tmp_path / "empty"
    empty.mkdir()
    env = {"PATH": "/usr/bin:/bin", "GEPARD_DATA_DIR": str(tmp_path / "data")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([gepard, *arguments], env=env, cwd=empty, check=True, capture_output=True, text=True)

    assert "gepard" in run("--version").stdout
    assert "The database is up to date" in run("migrate").stderr
    assert "can be served" in run("doctor").stdout
    assert "16 streams" in run("plan", "--streams", "10").stdout
    # torch, its relatives and weights of Gepard stay out of this image.
    names = {path.name.lower() for path in (opt / "lib").rglob("site-packages/*")}
    assert not {"torch", "vllm", "nvidia"} & names
