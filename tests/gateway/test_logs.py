"""Logs name events and figures; they never hold text, audio or keys."""

import asyncio
import json
import logging
import sys

import pytest

from tests.support.engines import ToneEngine
from tests.support.stack import running_stack

SECRET = "xylophone"
HEADERS = {"authorization": "Bearer gp-topsecretkey"}


def request(**changes):
    return {"model": "tts-1", "input": f"The {SECRET} is mine.", "voice": "low", **changes}


def lines(capfd) -> list[dict]:
    out, err = capfd.readouterr()
    assert SECRET not in out + err
    assert "topsecretkey" not in out + err
    return [json.loads(line) for line in (out + err).splitlines() if line.startswith("{")]


@pytest.fixture
def real_stderr(monkeypatch):
    """The handler writes to what stderr is now, so that the test sees it."""
    monkeypatch.setattr(logging.getLogger().handlers[0], "stream", sys.stderr)


async def test_a_request_and_its_job_are_one_line_each_with_fixed_fields(settings, capfd, real_stderr):
    async with running_stack(settings, ToneEngine()) as stack, stack.client() as client:
        response = await client.post("/v1/audio/speech", json=request(), headers=HEADERS)
        await asyncio.sleep(0.1)
    events = lines(capfd)
    (line,) = [event for event in events if event["event"] == "request" and event["path"] == "/v1/audio/speech"]
    assert line["request_id"] == response.headers["x-request-id"]
    assert {"method", "status", "outcome", "first_ms", "total_ms", "bytes"} <= set(line)
    (job,) = [event for event in events if event["event"] == "speech_job"]
    assert {"job_id", "attempt", "model", "worker", "outcome", "audio_s", "engine_first_ms", "run_ms"} <= set(job)


REFUSED = {"voice": SECRET, "model": SECRET, "response_format": SECRET, "language": SECRET, "speed": SECRET}


async def test_refused_values_are_not_logged(settings, capfd, real_stderr):
    async with running_stack(settings, ToneEngine()) as stack, stack.client() as client:
        for field, value in REFUSED.items():
            response = await client.post("/v1/audio/speech", json=request(**{field: value}), headers=HEADERS)
            assert response.status_code in (400, 404)
    lines(capfd)


async def test_a_traceback_holds_no_values(settings, capfd, real_stderr):
    def step(request, index):
        raise ZeroDivisionError

    async with running_stack(settings, ToneEngine(step=step)) as stack, stack.client() as client:
        response = await client.post("/v1/audio/speech", json=request(), headers=HEADERS)
        assert response.status_code == 500
    assert any(event["event"] == "speech_failed" and event["exception"] for event in lines(capfd))
