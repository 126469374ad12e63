import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from tests.support.clips import speech, wav
from tests.support.gepard import command, environment, wait_until
from tests.support.http_server import answering

TEXT = "Good morning."
Say = Callable[..., Result]


@pytest.fixture
def say(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """`gepard say` in an empty folder, to the running serve unless a URL is given."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, **options: object) -> Result:
        env = {"GEPARD_SERVER_PORT": str(urlsplit(url).port)}
        return CliRunner(env=env).invoke(main, ["say", *map(str, arguments)], **options)  # type: ignore[arg-type]

    return run


def assert_refused(result: Result, message: str, folder: Path) -> None:
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not [path for path in folder.iterdir() if path.suffix in (".wav", ".mp3", ".part")]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.wav", b"RIFF"),
        ("a.WAV", b"RIFF"),
        ("a.flac", b"fLaC"),
        ("a.opus", b"OggS"),
        ("a.ogg", b"OggS"),
        ("a.mp3", b"\xff"),
        ("a.webm", b"\x1a\x45\xdf\xa3"),
        ("a.ulaw", b""),
        ("a.alaw", b""),
        ("a", b"\xff"),
        ("{a} [b].wav", b"RIFF"),
    ],
)
def test_the_ending_of_the_file_decides_the_format(name: str, start: bytes, say: Say, tmp_path: Path):
    assert say(TEXT, "-o", name).exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_options_win(say: Say, tmp_path: Path):
    options = ["--format", "flac", "--voice", "granite", "--seed", "1", "--sample-rate", "8000", "--language", "en"]
    assert say(TEXT, "-o", "a.wav", *options, "--no-normalize", "--temperature", "0.5").exit_code == 0
    assert (tmp_path / "a.wav").read_bytes().startswith(b"fLaC")


def test_speed_changes_the_length(say: Say):
    slow, fast = (
        say(TEXT, "-o", "-", "--format", "pcm", "--seed", 1, "--speed", speed).stdout_bytes for speed in (0.5, 2)
    )
    assert len(slow) > 2 * len(fast) > 0


def test_the_standard_output_gets_the_same_bytes(say: Say, tmp_path: Path):
    assert say(TEXT, "-o", "a.wav", "--seed", 1).exit_code == 0
    assert say(TEXT, "-o", "-", "--format", "wav", "--seed", 1).stdout_bytes == (tmp_path / "a.wav").read_bytes()


def test_the_text_may_come_from_the_standard_input(say: Say):
    spoken = say("-", "-o", "-", "--seed", 1, input=TEXT).stdout_bytes
    assert spoken == say(TEXT, "-o", "-", "--seed", 1).stdout_bytes


def test_an_existing_file_is_replaced_through_its_link(say: Say, tmp_path: Path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link.wav").symlink_to("target")
    assert say(TEXT, "-o", "link.wav").exit_code == 0
    assert (tmp_path / "link.wav").is_symlink()
    assert (tmp_path / "target").read_bytes()[:4] == b"RIFF"


def test_a_pipe_is_written_to_and_not_replaced(say: Say, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    assert say(TEXT, "-o", "pipe", "--format", "wav").exit_code == 0
    reader.join(20)
    assert read[0][:4] == b"RIFF"
    assert (tmp_path / "pipe").is_fifo()


def test_what_the_engine_cannot_do_is_the_gateway_s_answer(say: Say, tmp_path: Path):
    assert_refused(say(TEXT, "-o", "a.wav", "--cfg-scale", 2), "does not support 'cfg_scale'", tmp_path)


def test_a_text_is_spoken_like_a_reference_clip(say: Say, tmp_path: Path):
    (tmp_path / "clip.wav").write_bytes(wav(speech(2.0)))
    assert say(TEXT, "-o", "a.wav", "--seed", 1).exit_code == 0
    assert say(TEXT, "-o", "b.wav", "--seed", 1, "--reference", "clip.wav").exit_code == 0
    assert (tmp_path / "a.wav").read_bytes() != (tmp_path / "b.wav").read_bytes()
    (tmp_path / "no.wav").write_bytes(b"RIFF")
    refused = say(TEXT, "-o", "c.wav", "--reference", "no.wav")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "holds no audio" in refused.stderr
    assert not (tmp_path / "c.wav").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["", "-o", "a.wav"], "nothing that can be spoken"),
        ([TEXT, "-o", "a.wav", "--voice", "nobody"], "The voice 'nobody' does not exist"),
        ([TEXT, "-o", "a.wav", "--model", "none"], "The model 'none' does not exist"),
        ([TEXT, "-o", "a.wav", "--speed", "9"], "'speed'"),
        ([TEXT, "-o", "a.txt"], "no format ends in .txt: name one (--format mp3|opus|aac|flac|wav|pcm|webm|ulaw|alaw)"),
        ([TEXT, "-o", "missing/a.wav"], "cannot write missing/a.wav: No such file or directory"),
        ([TEXT, "-o", "a" * 300 + ".wav"], "File name too long"),
        ([TEXT, "-o", "a.wav", "--url", "http://127.0.0.1:1"], "no gateway answers at http://127.0.0.1:1/v1/audio/"),
        ([TEXT, "-o", "a.wav", "--url", "localhost:8000"], "expected something like http://127.0.0.1:8000/v1"),
        ([TEXT, "-o", "a.wav", "--url", "http://[::"], "--url http://[::"),
    ],
)
def test_a_refusal_is_one_plain_line_and_no_file(arguments: list[str], message: str, say: Say, tmp_path: Path):
    assert_refused(say(*arguments), message, tmp_path)


def test_text_that_is_not_utf_8_is_refused(say: Say, tmp_path: Path):
    assert_refused(say("-", "-o", "a.wav", input=b"caf\xe9"), "is not UTF-8", tmp_path)


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/"])
def test_the_url_may_end_before_or_after_v1(base: str, say: Say, url: str):
    assert say(TEXT, "-o", "a.wav", "--url", url + base).exit_code == 0


_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ntransfer-encoding: chunked\r\n\r\n4\r\nRIFF\r\n"


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (_HEAD, "the reply broke off"),
        (b"", "the reply broke off"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\n\r\nNo.", "the server answered 502"),
        (b"HTTP/1.1 400 Bad\r\ncontent-length: 12\r\n\r\n{'error': 1}", "the server answered 400"),
    ],
    ids=["cut", "nothing", "proxy", "other shape"],
)
def test_a_reply_without_an_end_leaves_what_was_there(reply: bytes, message: str, say: Say, tmp_path: Path):
    (tmp_path / "kept").write_bytes(b"old")
    with answering(reply) as broken:
        result = say(TEXT, "-o", "kept", "--format", "wav", "--url", broken)
    assert_refused(result, message, tmp_path)
    assert (tmp_path / "kept").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def start_say(*arguments: str, folder: Path, url: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command("say", *arguments, "--url", url),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_reader_that_has_enough_ends_it_in_silence(url: str, tmp_path: Path):
    text = " ".join(f"This is sentence number {count}." for count in range(100))
    with start_say(text, "-o", "-", "--format", "wav", folder=tmp_path, url=url) as say:
        assert say.stdout is not None
        assert say.stderr is not None
        assert say.stdout.read(4) == b"RIFF"
        say.stdout.close()
        assert say.wait(60) == 1
        assert say.stderr.read() == b""


def test_ctrl_c_leaves_no_file(url: str, tmp_path: Path):
    text = " ".join(f"This is sentence number {count}." for count in range(120))
    # Slow and in another format, so that it is far from its end when the machine was away for a second.
    with start_say(text, "-o", "a.mp3", "--speed", "0.25", folder=tmp_path, url=url) as say:
        # Not before: an interrupt that meets a late import may be lost in Python's import machinery.
        wait_until(lambda: [path for path in tmp_path.iterdir() if path.stat().st_size], within_s=60, what="audio")
        say.send_signal(signal.SIGINT)
        assert say.wait(60) == 1
        assert say.stderr is not None
        assert say.stderr.read() == b"\nAborted!\n"
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_so(url: str, tmp_path: Path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with start_say(TEXT, "-o", "/dev/full", folder=tmp_path, url=url) as say:
        assert say.wait(60) == 1
        assert say.stderr is not None
        assert say.stderr.read() == b"Error: cannot write /dev/full: No space left on device\n"
