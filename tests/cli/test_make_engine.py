"""A worker with the engine `gepard` that cannot be: one plain message, before anything is loaded."""

import importlib.util
import json
import os
import shutil

import pytest

from cli.gepard import codec_file, num_workers, require_gepard
from cli.host_process import _only_device
from shared.errors import SettingsError
from shared.settings import GepardSettings, Settings, WorkerSettings
from tests.support import gepard
from tests.support.tiny_gepard import CHECKPOINT, CODEC

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch: make test-gepard")


def settings_of(tmp_path, **options):
    return Settings(data_dir=str(tmp_path), worker=WorkerSettings(engine="gepard"), gepard=GepardSettings(**options))


def test_everything_that_is_missing_is_named_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("cli.gepard.find_spec", lambda name: None)
    with pytest.raises(SettingsError) as caught:
        require_gepard(settings_of(tmp_path, backend="vllm"))
    message = str(caught.value)
    assert "pip install 'gepard-gateway[gepard,vllm]'" in message
    assert "not installed: torch, tokenizers; pip install 'gepard-gateway[gepard]'" in message
    assert message.count("run `gepard download`") == 2
    assert str(tmp_path) in message


def test_a_folder_with_one_codec_is_that_codec(tmp_path):
    assert codec_file(tmp_path) is None
    assert codec_file(tmp_path / "missing.nemo") is None
    (tmp_path / "a.nemo").touch()
    assert codec_file(tmp_path) == codec_file(tmp_path / "a.nemo") == tmp_path / "a.nemo"
    (tmp_path / "b.nemo").touch()
    assert codec_file(tmp_path) is None


def test_a_gpu_has_several_workers_a_cpu_one_and_the_operator_the_last_word(tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    assert num_workers(settings_of(tmp_path, device="cpu")) == 1
    assert num_workers(settings_of(tmp_path, device="cuda:1")) == 4
    assert num_workers(settings_of(tmp_path, device="cpu", workers=3)) == 3


@pytest.mark.parametrize(
    ("name", "visible", "seen", "device"),
    [
        ("auto", None, None, None),
        ("cpu", None, None, "cpu"),
        ("cuda", "2,3", "2,3", "cuda"),
        ("cuda:1", None, "1", "cuda"),
        ("cuda:1", "2,3", "3", "cuda"),
        ("cuda:0", "GPU-6f1,GPU-7a2", "GPU-6f1", "cuda"),
    ],
)
def test_a_host_sees_only_the_gpu_it_is_to_use(monkeypatch, name, visible, seen, device):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert _only_device(name) == device
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == seen


@pytest.mark.parametrize("name", ["cuda:2", "cuda:x", "cuda:-1"])
def test_a_gpu_that_is_not_there_is_named(monkeypatch, name):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    with pytest.raises(SettingsError, match=name):
        _only_device(name)


def _no_config(folder):
    (folder / "gepard_config.json").write_text("[]")


def _huge(folder):
    config = json.loads((folder / "gepard_config.json").read_text())
    config["backbone_config"]["vocab_size"] = 10**12
    (folder / "gepard_config.json").write_text(json.dumps(config))


def _no_voices(folder):
    config = json.loads((folder / "gepard_config.json").read_text())
    config["voice_cloning"]["enabled"] = False
    (folder / "gepard_config.json").write_text(json.dumps(config))


def _cut_weights(folder):
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


def _pickle(folder):
    (folder / "model.safetensors").write_bytes(b"\x80\x04cos\nsystem\n(S'touch pwned'\ntR.")


@needs_torch
@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (_no_config, "gepard_config.json"),
        (_huge, "vocab_size"),
        (_no_voices, "model.safetensors"),
        (_cut_weights, "truncated"),
        (_pickle, "model.safetensors"),
    ],
)
def test_a_hostile_checkpoint_ends_the_worker_with_one_line_that_names_it(tmp_path, redis_url, spoil, named):
    folder = tmp_path / "checkpoint"
    shutil.copytree(CHECKPOINT, folder)
    spoil(folder)
    clips = tmp_path / "clips"
    gepard_settings = {"checkpoint": str(folder), "codec": str(CODEC), "starter_clips": str(clips), "device": "cpu"}
    (tmp_path / "config.yaml").write_text(json.dumps({"worker": {"engine": "gepard"}, "gepard": gepard_settings}))
    result = gepard.run("worker", "--redis-url", redis_url, cwd=tmp_path)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    error = next(line for line in result.stderr.splitlines() if line.startswith("Error: "))
    assert named in error
    assert not (tmp_path / "pwned").exists()
