"""Logs name events and figures; they never hold text, audio or keys."""

import asyncio
import io
import json
import logging

import pytest

from shared.errors import EngineLost
from tests.support.engines import ToneEngine
from tests.support.stack import running_stack

SECRET = "xylophone"
HEADERS = {"authorization": "Bearer gp-topsecretkey"}


def request(**changes):
    return {"model": "tts-1", "input": f"The {SECRET} is mine.", "voice": "low", **changes}


@pytest.fixture
def log(monkeypatch):
    """What the process would write to stderr; leaks fail the test."""
    written = io.StringIO()
    monkeypatch.setattr(logging.getLogger().handlers[0], "stream", written)
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    assert SECRET not in written.getvalue()
    assert "topsecretkey" not in written.getvalue()


async def test_a_request_and_its_job_are_one_line_each_with_fixed_fields(settings, log):
    async with running_stack(settings, ToneEngine()) as stack, stack.client() as client:
        response = await client.post("/v1/audio/speech", json=request(), headers=HEADERS)
        await asyncio.sleep(0.1)
    events = log()
    (line,) = [event for event in events if event["event"] == "request" and event["path"] == "/v1/audio/speech"]
    assert line["request_id"] == response.headers["x-request-id"]
    assert {"method", "status", "outcome", "first_ms", "total_ms", "bytes"} <= set(line)
    assert line["attempts"] == 1
    (job,) = [event for event in events if event["event"] == "speech_job"]
    assert {"job_id", "attempt", "model", "worker", "outcome", "audio_s", "engine_first_ms", "run_ms"} <= set(job)


REFUSED = {"voice": SECRET, "model": SECRET, "response_format": SECRET, "language": SECRET, "speed": SECRET}


async def test_refused_values_are_not_logged(settings, log):
    async with running_stack(settings, ToneEngine()) as stack, stack.client() as client:
        for field, value in REFUSED.items():
            response = await client.post("/v1/audio/speech", json=request(**{field: value}), headers=HEADERS)
            assert response.status_code in (400, 404)
    assert log()


async def test_a_traceback_holds_no_values(settings, log):
    def step(request, index):
        raise ZeroDivisionError

    async with running_stack(settings, ToneEngine(step=step)) as stack, stack.client() as client:
        response = await client.post("/v1/audio/speech", json=request(), headers=HEADERS)
        assert response.status_code == 500
    assert any(event["event"] == "speech_failed" and event["exception"] for event in log())


async def test_the_line_of_a_request_tells_how_often_it_was_begun(settings, log):
    def lost(request, index):
        raise EngineLost("gone")

    async with running_stack(settings, ToneEngine(step=lost)) as stack, stack.client() as client:
        assert (await client.post("/v1/audio/speech", json=request())).status_code == 503
    (line,) = [event for event in log() if event["event"] == "request" and event["path"] == "/v1/audio/speech"]
    assert (line["attempts"], line["outcome"]) == (settings.limits.max_attempts, "worker_lost")
