"""`gepard download` from a local server that speaks the hub's protocol."""

import re
import time

import pytest
from click.testing import CliRunner

constants = pytest.importorskip("huggingface_hub.constants", reason="needs huggingface_hub: make test-gepard")
pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")

from cli.download import CODEC_REPO, GEPARD_REPO
from cli.main import main
from tests.support import gepard
from tests.support.hub import running_hub
from tests.support.tiny_gepard import CHECKPOINT, CODEC

FILES = ("config.json", "gepard_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
NEMO = "released-name.nemo"


@pytest.fixture
def hub():
    repos = {
        GEPARD_REPO: {**{name: (CHECKPOINT / name).read_bytes() for name in FILES}, "lora_adapter.pt": b"not wanted"},
        CODEC_REPO: {NEMO: CODEC.read_bytes(), "README.md": b"# terms", "samples/a.wav": b"not wanted"},
    }
    with running_hub(repos=repos) as hub:
        yield hub


@pytest.fixture
def download(hub, tmp_path, monkeypatch):
    """Run the command in this process; its result."""
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
    # What has not filled a block is lost with the connection, and a block is larger than the tiny files.
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1 << 16)
    # The client waits up to 8 s between its tries.
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(main, ["download", "--data-dir", str(tmp_path / "data"), *arguments])

    return run


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_what_the_engine_needs_arrives_and_nothing_else(download, tmp_path):
    result = download()
    assert result.exit_code == 0, result.output
    assert names(tmp_path / "data" / "models") == {
        *(f"gepard/{name}" for name in FILES),
        f"nanocodec/{NEMO}",
        "nanocodec/README.md",
    }
    assert (tmp_path / "data" / "models" / "nanocodec" / NEMO).read_bytes() == CODEC.read_bytes()
    assert result.output.count("Checked: it loads.") == 2


def test_the_licences_are_shown_before_anything_is_fetched(download, hub):
    hub.broken = True
    result = download()
    assert "Apache License 2.0" in result.output
    hub.broken = False
    assert "NVIDIA Open Model License, not Apache" in download().output


def test_what_is_there_is_not_fetched_again(download, hub):
    download()
    hub.ranges.clear()
    assert download().exit_code == 0
    assert hub.ranges == []


def test_an_interrupted_download_goes_on_where_it_was(download, hub):
    """More cuts than the client tries by itself; the second run asks for the rest only."""
    size = len(hub.repos[CODEC_REPO][NEMO])
    hub.cut[NEMO] = [size // 2] + [0] * 50
    first = download()
    assert first.exit_code == 1
    assert "it goes on where it was" in first.output
    hub.cut.clear()
    hub.ranges.clear()
    assert download().exit_code == 0
    assert [name for name, _ in hub.ranges if name != "README.md"] == [NEMO]
    assert 0 < next(start for name, start in hub.ranges if name == NEMO) <= size // 2


@pytest.mark.parametrize("sent", ["short", "long", "other"])
def test_bytes_other_than_announced_are_refused(download, hub, tmp_path, sent):
    data = hub.repos[CODEC_REPO][NEMO]
    hub.sent[NEMO] = {"short": data[:-1000], "long": data + b"\0" * 1000, "other": data[:-1] + b"\1"}[sent]
    result = download()
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    assert NEMO not in names(tmp_path / "data" / "models" / "nanocodec")
    hub.sent.clear()
    assert download().exit_code == 0


def test_a_checkpoint_that_does_not_load_is_said_so(download, hub):
    hub.repos[GEPARD_REPO]["gepard_config.json"] = b"{}"
    result = download()
    assert result.exit_code == 1
    assert re.search("Error: .*gepard_config.json", result.output)


@pytest.mark.parametrize("case", ["no token", "wrong token", "terms"])
def test_a_repository_that_is_not_given_out_says_how_to_log_in(download, hub, monkeypatch, case):
    hub.token = "hf_right"
    hub.gated = case == "terms"
    if case != "no token":
        monkeypatch.setenv("HF_TOKEN", "hf_right" if case == "terms" else "hf_wrong")
    result = download()
    assert result.exit_code == 1
    assert GEPARD_REPO in result.output
    assert "make login" in result.output
    assert "hf_" not in result.output


def test_the_token_comes_from_the_environment_or_from_the_login(download, hub, tmp_path, monkeypatch):
    hub.token = "hf_right"
    (tmp_path / "token").write_text("hf_right")
    assert download().exit_code == 0
    (tmp_path / "token").unlink()
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert download().exit_code == 0


def test_another_repository_can_be_named(download, hub):
    hub.repos["me/tuned"] = hub.repos.pop(GEPARD_REPO)
    assert download().exit_code == 1
    result = download("--gepard-repo", "me/tuned")
    assert result.exit_code == 0, result.output


def test_a_hub_out_of_order_is_said_so(download, hub):
    hub.broken = True
    result = download()
    assert result.exit_code == 1
    assert "500" in result.output


def test_as_a_command_it_shows_its_progress_and_takes_the_hub_of_the_environment(hub, tmp_path):
    result = gepard.run(
        "download",
        "--data-dir",
        tmp_path / "data",
        cwd=tmp_path,
        HF_ENDPOINT=hub.url,
        HF_HOME=str(tmp_path / "hf"),
        TQDM_POSITION="-1",  # bars without a terminal
    )
    assert result.returncode == 0, result.stderr
    assert "model.safetensors: 100%" in result.stderr
    doctor = gepard.run("doctor", "--data-dir", tmp_path / "data", cwd=tmp_path, GEPARD_WORKER_ENGINE="gepard")
    assert doctor.returncode == 0, doctor.stdout
    assert "The engine gepard (worker.engine) can be served." in doctor.stdout
