"""How `gepard serve` ends: nothing may stay behind, whatever ends it."""

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support import gepard
from tests.support.gepard import Gepard, is_running, wait_until

Start = Callable[..., Gepard]


def assert_nothing_is_left(serve: Gepard, *, within_s: float = 0.5) -> None:
    pids = serve.all_pids()
    assert pids
    wait_until(lambda: not any(map(is_running, pids)), within_s=within_s, what=f"the end of {pids}")


def test_sigterm_ends_everything(start: Start, tmp_path: Path):
    serve = start("serve", "--port", 0, "--data-dir", tmp_path / "data")
    url = serve.await_banner()
    assert serve.end(signal.SIGTERM) == 0
    assert_nothing_is_left(serve)
    assert [event["event"] for event in serve.events()][-1] == "stopped"
    assert not {"part_died", "part_killed"} & {event["event"] for event in serve.events()}
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


def test_after_kill_9_nothing_is_left_and_the_next_serve_starts(start: Start, tmp_path: Path):
    arguments = ("serve", "--port", 0, "--data-dir", tmp_path / "data")
    killed = start(*arguments)
    first_worker = killed.await_event("part_starting", part="worker")["pid"]
    os.kill(first_worker, signal.SIGKILL)
    killed.await_banner()
    assert killed.parts()["worker"] != first_worker
    killed.end(signal.SIGKILL)
    # At once: it waits for the end of the Valkey that has the data.
    following = start(*arguments)
    assert_nothing_is_left(killed, within_s=5)
    following.await_event("part_ready", part="valkey")
    assert following.end(signal.SIGINT) == 0
    assert_nothing_is_left(following)


@pytest.mark.parametrize("part", ["valkey", "gateway"])
def test_it_can_be_stopped_while_it_starts(part: str, start: Start, tmp_path: Path):
    serve = start("serve", "--port", 0, "--data-dir", tmp_path / "data")
    serve.await_event("part_starting", part=part)
    assert serve.end(signal.SIGHUP) == 0
    assert_nothing_is_left(serve)
    assert serve.output == ""


def test_a_second_signal_does_not_wait_for_running_requests(start: Start, tmp_path: Path):
    serve = start("serve", "--port", 0, "--data-dir", tmp_path / "data")
    url = urlsplit(serve.await_event("gateway_listening")["urls"][0])
    serve.await_event("part_ready", part="gateway")
    with socket.create_connection((url.hostname, url.port)) as client:
        # The gateway tells the client to go on, so it has begun to wait for the body.
        head = f"POST /v1/audio/speech HTTP/1.1\r\nhost: {url.netloc}\r\ncontent-type: application/json\r\n"
        client.sendall(f"{head}content-length: 10\r\nexpect: 100-continue\r\n\r\n".encode())
        assert client.recv(12) == b"HTTP/1.1 100"
        serve.process.send_signal(signal.SIGINT)
        serve.await_event("stopping")
        assert serve.end(signal.SIGINT) == 0
    assert_nothing_is_left(serve)
    assert "gateway did not end and was killed" in serve.log


def test_a_data_folder_that_cannot_be_written_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    refused = gepard.run("serve", "--port", 0, "--data-dir", tmp_path / "file" / "data", cwd=tmp_path)
    assert refused.returncode == 1
    assert f"cannot write to the data folder {tmp_path}/file/data: Not a directory" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_it_says_that_a_redis_cannot_be_reached(tmp_path: Path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        refused = gepard.run("serve", "--port", 0, "--redis-url", f"redis://:secret@127.0.0.1:{port}", cwd=tmp_path)
    assert refused.returncode == 1
    assert f"cannot use the Redis at redis://127.0.0.1:{port}" in refused.stderr
    assert "secret" not in refused.stderr
    assert "Traceback" not in refused.stderr
