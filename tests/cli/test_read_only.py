"""A read-only container: no home, nothing writable but the data folder, no rights of root."""

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.clips import speech, wav
from tests.support.gepard import Gepard, command, environment

_NAMESPACE = ("unshare", "--mount", "--propagation", "private")


def launcher(*mounts: str) -> list[str]:
    """Runs a command after these mounts, without HOME and without the rights of root."""
    drop = "exec env -u HOME setpriv --no-new-privs --bounding-set=-all --inh-caps=-all"
    return [*_NAMESPACE, "sh", "-c", " && ".join([*mounts, f'{drop} "$@"']), "sh"]


def can_unshare() -> bool:
    if sys.platform != "linux" or shutil.which("unshare") is None or shutil.which("setpriv") is None:
        return False
    return subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not can_unshare(), reason="needs Linux, unshare, setpriv, and the right to mount")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: the path of Valkey's socket may have 100 bytes."""
    with tempfile.TemporaryDirectory(prefix="gp-") as name:
        (Path(name) / "d").mkdir()
        yield Path(name)


def test_uploads_and_speech_work_while_the_data_folder_is_writable(folder):
    data = folder / "d"
    read_only = [f"mount --rbind {place} {place} && mount -o remount,ro,bind {place}" for place in ("/tmp", "/var/tmp")]
    mounts = launcher(f"mount --bind '{data}' '{data}'", *read_only)
    gepard = Gepard(folder, "serve", "--port", 0, "--data-dir", data, launcher=mounts)
    try:
        url = gepard.await_banner()
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            for name, seconds in {"0.4 MB": 2.0, "2 MB": 10.0}.items():
                clip = wav(speech(seconds, rate_hz=48000), 48000, channels=2)
                made = client.post(
                    "/v1/voices", data={"name": name, "consent": "yes"}, files={"audio_sample": ("c.wav", clip)}
                )
                assert made.status_code == 200, made.text
                spoken = client.post("/v1/audio/speech", json={"model": "tts-1", "input": "Hello.", "voice": name})
                assert spoken.status_code == 200, spoken.text
        assert gepard.end(signal.SIGTERM) == 0
    finally:
        gepard.clean()


def test_a_data_folder_that_cannot_be_written_is_named_at_the_start(folder):
    data = folder / "d"
    mounts = launcher(f"mount -t tmpfs -o ro tmpfs '{data}'")
    ended = subprocess.run(
        [*mounts, *command("serve", "--port", 0, "--data-dir", data)],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert str(data) in ended.stderr
    assert "Traceback" not in ended.stderr
