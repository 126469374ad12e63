"""How `gepard serve` ends: nothing may stay behind, whatever ends it."""

import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support import gepard
from tests.support.gepard import VOICE, Gepard, is_running, wait_until

Start = Callable[..., Gepard]


def speech_request(text: str) -> bytes:
    body = json.dumps({"model": "tts-1", "voice": VOICE, "input": text, "response_format": "pcm"})
    lines = ["POST /v1/audio/speech HTTP/1.1", "host: localhost", "content-type: application/json"]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", body]).encode()


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
    killed.await_banner()
    killed.end(signal.SIGKILL)
    # At once: it waits for the end of the Valkey that has the data.
    following = start(*arguments)
    assert_nothing_is_left(killed, within_s=5)
    following.await_event("part_ready", part="valkey")
    assert following.end(signal.SIGINT) == 0
    assert_nothing_is_left(following)


@pytest.mark.parametrize("moment", [("part_starting", "valkey"), ("part_starting", "gateway")])
def test_it_can_be_stopped_while_it_starts(moment: tuple[str, str], start: Start, tmp_path: Path):
    serve = start("serve", "--port", 0, "--data-dir", tmp_path / "data")
    serve.await_event(moment[0], part=moment[1])
    assert serve.end(signal.SIGHUP) == 0
    assert_nothing_is_left(serve)
    assert serve.output == ""


def test_a_part_killed_while_it_starts_is_started_again(start: Start, tmp_path: Path):
    serve = start("serve", "--port", 0, "--data-dir", tmp_path / "data")
    first = serve.await_event("part_starting", part="worker")["pid"]
    os.kill(first, signal.SIGKILL)
    serve.await_banner()
    assert serve.parts()["worker"] != first
    assert serve.end(signal.SIGINT) == 0
    assert_nothing_is_left(serve)


def test_a_second_signal_does_not_wait_for_running_replies(start: Start, tmp_path: Path):
    serve = start("serve", "--port", 0, "--data-dir", tmp_path / "data")
    port = urlsplit(serve.await_banner()).port or 0
    with socket.create_connection(("127.0.0.1", port)) as client:
        # A client that takes nothing more keeps its reply running.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(speech_request(" ".join(f"This is sentence number {count}." for count in range(150))))
        assert client.recv(12) == b"HTTP/1.1 200"
        serve.process.send_signal(signal.SIGINT)
        serve.await_event("stopping")
        assert serve.end(signal.SIGINT) == 0
    assert_nothing_is_left(serve)
    assert "gateway did not end and was killed" in serve.log


@pytest.mark.parametrize("name", ["file/data", "file"], ids=["inside a file", "a file"])
def test_a_data_folder_that_cannot_be_written_is_refused(name: str, tmp_path: Path):
    (tmp_path / "file").touch()
    refused = gepard.run("serve", "--port", 0, "--data-dir", tmp_path / name, cwd=tmp_path)
    assert refused.returncode == 1
    assert f"cannot write to the data folder {tmp_path / name}" in refused.stderr
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
