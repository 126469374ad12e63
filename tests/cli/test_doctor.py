"""`gepard doctor` names what is missing, and its exit status speaks of the configured engine."""

import importlib.util

import pytest
from click.testing import CliRunner

from cli.main import main
from tests.support.tiny_gepard import CHECKPOINT, CODEC

HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture
def doctor(tmp_path, monkeypatch):
    """Run the command in this process, with variables set; its result."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, **env):
        for name, value in env.items():
            monkeypatch.setenv(name, str(value))
        return CliRunner().invoke(main, ["doctor", "--data-dir", str(tmp_path / "data"), *arguments])

    return run


def lines(result, mark):
    return [line for line in result.output.splitlines() if line.startswith(mark)]


def test_what_another_engine_lacks_is_named_and_no_failure(doctor):
    result = doctor()
    assert result.exit_code == 0, result.output
    assert "The engine hibari (worker.engine) can be served." in result.output
    missing = lines(result, "MISSING")
    assert missing
    assert all(" gepard " in line for line in missing)
    assert sum("run `gepard download`" in line for line in missing) == 2


def test_what_the_configured_engine_lacks_is_a_failure(doctor):
    result = doctor(GEPARD_WORKER_ENGINE="gepard")
    assert result.exit_code == 1
    assert "The engine gepard (worker.engine) cannot be served." in result.output


@pytest.mark.skipif(not HAS_TORCH, reason="needs PyTorch: make test-gepard")
def test_an_engine_with_everything_can_be_served(doctor):
    there = {"GEPARD_GEPARD_CHECKPOINT": CHECKPOINT, "GEPARD_GEPARD_CODEC": CODEC, "GEPARD_WORKER_ENGINE": "gepard"}
    result = doctor(**there)
    assert result.exit_code == 0, result.output
    assert "GPU" in result.output


@pytest.mark.skipif(not HAS_TORCH, reason="needs PyTorch: make test-gepard")
def test_a_gpu_that_was_asked_for_and_is_not_there_is_a_failure(doctor, monkeypatch):
    import torch  # noqa: PLC0415

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    there = {"GEPARD_GEPARD_CHECKPOINT": CHECKPOINT, "GEPARD_GEPARD_CODEC": CODEC, "GEPARD_WORKER_ENGINE": "gepard"}
    assert doctor(**there).exit_code == 0
    result = doctor(GEPARD_GEPARD_DEVICE="cuda")
    assert result.exit_code == 1
    assert "GPU: PyTorch" in "".join(lines(result, "MISSING"))


def test_missing_packages_are_named_with_how_to_install_them(doctor, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr("cli.gepard.find_spec", lambda name: None if name == "torch" else find_spec(name))
    result = doctor(GEPARD_WORKER_ENGINE="gepard")
    assert result.exit_code == 1
    assert "not installed: torch" in result.output
    assert "gepard-gateway[gepard]" in result.output


def test_a_damaged_checkpoint_is_named(doctor, tmp_path):
    (tmp_path / "gepard_config.json").write_text("{}")
    result = doctor(GEPARD_GEPARD_CHECKPOINT=tmp_path, GEPARD_GEPARD_CODEC=CODEC)
    assert "gepard_config.json" in "".join(lines(result, "MISSING"))


@pytest.mark.parametrize("url", ["redis://user:secret@127.0.0.1:1", "http://nowhere"])
def test_a_redis_that_does_not_answer_is_a_failure(doctor, url):
    result = doctor("--redis-url", url)
    assert result.exit_code == 1
    assert "Redis: " in "".join(lines(result, "MISSING"))
    assert "secret" not in result.output


def test_a_redis_that_answers_is_fine(doctor, redis_url):
    result = doctor("--redis-url", redis_url)
    assert result.exit_code == 0
    assert "answers" in result.output


def test_a_data_folder_that_cannot_be_written_is_a_failure(doctor, tmp_path):
    (tmp_path / "data").write_text("a file")
    result = doctor()
    assert result.exit_code == 1
    assert "data folder" in "".join(lines(result, "MISSING"))
