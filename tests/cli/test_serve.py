import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from redis import Redis

from tests.support import gepard
from tests.support.gepard import VOICE, Gepard, wait_until


def speak(url: str, text: str = "Good morning.") -> httpx.Response:
    body = {"model": "tts-1", "voice": VOICE, "input": text, "response_format": "wav"}
    return httpx.post(f"{url}/v1/audio/speech", json=body, timeout=60, trust_env=False)


def speaks(url: str) -> bool:
    try:
        return speak(url).is_success
    except httpx.HTTPError:
        return False


def redis_url_of(serve: Gepard) -> str:
    """Where Valkey listens: in the data folder, or in a temporary one when that path is too long."""
    environ = Path(f"/proc/{serve.parts()['gateway']}/environ").read_bytes().decode().split("\0")
    return next(line for line in environ if line.startswith("GEPARD_REDIS_URL=")).partition("=")[2]


def test_it_speaks(serve: Gepard, url: str):
    assert speak(url).content[:4] == b"RIFF"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_localhost_is_both_families(host: str, url: str):
    assert httpx.get(f"http://{host}:{urlsplit(url).port}/health", trust_env=False).is_success


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("[::1]:8000", 200), ("LOCALHOST:8000", 200), ("localhost.", 200), ("127.0.0.1", 200),
        ("127.0.0.1.evil.example", 403), ("localhost.evil.example", 403), ("[::1].evil.example", 403),
        ("a@127.0.0.1", 403),
    ],
)  # fmt: skip
def test_only_names_of_this_machine_are_served(host: str, status: int, url: str):
    """A web page must not reach it through a name of its own that leads to 127.0.0.1."""
    answer = httpx.get(f"{url}/v1/models", headers={"host": host}, trust_env=False)
    assert answer.status_code == status
    assert status == 200 or answer.json()["error"]["code"] == "forbidden_host"


def test_the_curl_line_of_the_banner_works(serve: Gepard, tmp_path: Path):
    if shutil.which("curl") is None:
        pytest.skip("no curl here")
    (line,) = re.findall(r"curl .*?-o hello\.mp3", serve.output, re.DOTALL)
    subprocess.run(line, shell=True, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    assert (tmp_path / "hello.mp3").read_bytes()[:1] == b"\xff"


def test_the_python_lines_of_the_banner_work(serve: Gepard, tmp_path: Path):
    lines = re.findall(r"^  (from openai.*|client.*)$", serve.output, re.MULTILINE)
    assert len(lines) == 3
    environ = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=tmp_path, env=environ, check=True, capture_output=True, timeout=60
    )
    assert (tmp_path / "hello.mp3").read_bytes()[:1] == b"\xff"


def test_the_standard_output_has_the_banner_alone(serve: Gepard, url: str):
    assert serve.output.strip().startswith("Speech is served at")
    assert serve.output.strip().endswith("Ctrl-C")


def test_the_log_is_json_lines_when_it_is_no_terminal(serve: Gepard):
    assert {event["process"] for event in serve.events()} == {"serve", "gateway", "worker"}


def test_a_second_serve_on_the_same_data_is_refused(serve: Gepard, url: str, tmp_path: Path):
    data_dir = next(path for path in Path(f"/proc/{serve.process.pid}/cwd").resolve().iterdir() if path.is_dir())
    second = gepard.run("serve", "--data-dir", data_dir, "--port", urlsplit(url).port, cwd=tmp_path)
    assert second.returncode == 1
    assert f"already running with the data folder {data_dir}" in second.stderr
    assert "Traceback" not in second.stderr
    assert speaks(url)


def test_a_taken_port_is_refused(url: str, tmp_path: Path):
    port = urlsplit(url).port
    second = gepard.run("serve", "--data-dir", tmp_path, "--port", port, cwd=tmp_path)
    assert second.returncode == 1
    assert f"port {port} is taken on localhost" in second.stderr
    assert "Traceback" not in second.stderr


@pytest.mark.parametrize("part", ["gateway", "worker", "valkey"])
def test_a_killed_part_is_restarted_and_said_so(part: str, serve: Gepard, url: str):
    """Ready means itself: the heartbeat of a killed worker outlives it by more than a second."""
    died = sum(event["event"] == "part_died" for event in serve.events())
    before = serve.parts()
    os.kill(before[part], signal.SIGKILL)
    death = serve.await_event("part_died", part=part)
    assert death["message"] == f"{part} was killed by SIGKILL. It starts again in 0.5 s (restart 1)."
    ready = serve.await_event("part_ready", part=part, restarts=1)
    assert ready["pid"] == serve.parts()[part] != before[part]
    assert ready["message"] == f"{part} is ready again."
    if part == "worker":
        warm = next(event for event in serve.events() if f"-{ready['pid']}-" in event.get("worker", ""))
        assert warm["event"] == "worker_ready"
        assert serve.events().index(warm) < serve.events().index(ready)
    wait_until(lambda: speaks(url), within_s=30, what="speech after the restart")
    others = {name: pid for name, pid in serve.parts().items() if name != part}
    assert others == {name: pid for name, pid in before.items() if name != part}
    assert sum(event["event"] == "part_died" for event in serve.events()) == died + 1


def test_a_killed_valkey_keeps_its_data(serve: Gepard, url: str):
    with Redis.from_url(redis_url_of(serve)) as redis:
        redis.set("kept", "yes")
    restarts = max(event.get("restarts", 0) for event in serve.events() if event.get("part") == "valkey")
    os.kill(serve.parts()["valkey"], signal.SIGKILL)
    serve.await_event("part_ready", part="valkey", restarts=restarts + 1)
    with Redis.from_url(redis_url_of(serve)) as redis:
        assert redis.get("kept") == b"yes"
    wait_until(lambda: speaks(url), within_s=30, what="speech after the restart")
