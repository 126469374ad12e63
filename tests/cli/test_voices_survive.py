"""Voices outlive every part of `gepard serve`."""

import signal
from pathlib import Path

import httpx
import pytest

from tests.support.clips import speech, wav
from tests.support.gepard import Gepard, is_running, wait_until


def spoken(client: httpx.Client) -> bytes:
    response = client.post(
        "/v1/audio/speech", json={"model": "tts-1", "input": "Still here.", "voice": "ann", "seed": 1}
    )
    assert response.status_code == 200, response.text
    return response.content


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_voice_is_the_same_after_everything_was_started_again(tmp_path: Path, signum: signal.Signals):
    first = Gepard(tmp_path / "1", "serve", "--port", 0, "--data-dir", tmp_path / "data")
    try:
        with httpx.Client(base_url=first.await_banner(), timeout=60, trust_env=False) as client:
            made = client.post(
                "/v1/voices",
                data={"name": "ann", "consent": "yes"},
                files={"audio_sample": ("clip.wav", wav(speech(2.0)))},
            )
            assert made.status_code == 200, made.text
            before = spoken(client)
        first.end(signum)
        wait_until(lambda: not any(map(is_running, first.all_pids())), within_s=10, what="all parts have ended")
    finally:
        first.clean()
    second = Gepard(tmp_path / "2", "serve", "--port", 0, "--data-dir", tmp_path / "data")
    try:
        with httpx.Client(base_url=second.await_banner(), timeout=60, trust_env=False) as client:
            assert spoken(client) == before
            (voice,) = [voice for voice in client.get("/v1/voices").json()["data"] if voice["kind"] == "clip"]
            assert (voice["id"], voice["status"]) == (made.json()["id"], "ready")
        second.end(signal.SIGTERM)
    finally:
        second.clean()
