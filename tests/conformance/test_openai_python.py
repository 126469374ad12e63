"""The official Python SDK, as users call it, against the real stack."""

import asyncio
import base64
import json

import numpy as np
import openai
import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, DefaultHttpxClient, OpenAI

from tests.conformance.audio import PCM_HZ, decode, decode_pcm
from tests.support.engines import ToneEngine
from tests.support.stack import running_stack
from tests.support.waiting import eventually
from voices.aliases import OPENAI_NAMES

TEXT = "A short sentence, and then another one. That is all."
SPEECH = {"model": "tts-1", "voice": "alloy", "input": TEXT}
SEED = {"seed": 7}
"""The SDK sends only what it knows as a keyword; the rest goes into `extra_body`."""

FORMATS = ["mp3", "opus", "aac", "flac", "wav", "pcm"]

# format -> codec and rate.
CONTAINERS = {
    "wav": ("pcm_s16le", 24000),
    "flac": ("flac", 24000),
    "opus": ("opus", 48000),
    "mp3": ("mp3float", 24000),
    "aac": ("aac", 24000),
}

# Samples that these codecs put in front and cannot mark in a stream, and the most they add behind: the last
# frame filled up, in mp3 after the encoder's own delay.
PRIMING = {"mp3": 1105, "aac": 1024}
TAIL = {"mp3": 1152, "aac": 1024}


@pytest.fixture
async def async_client(base_url):
    async with AsyncOpenAI(base_url=base_url, api_key="none") as client:
        yield client


@pytest.fixture
def requests_sent():
    """Grows by one with each HTTP request of `counting_client`."""
    return []


@pytest.fixture
def counting_client(base_url, requests_sent):
    http_client = DefaultHttpxClient(event_hooks={"request": [requests_sent.append]})
    with OpenAI(base_url=base_url, api_key="none", http_client=http_client) as client:
        yield client


def audio_of_events(body: bytes) -> bytes:
    """The deltas of an SSE body, joined; its last event is `done`."""
    events = [json.loads(block.removeprefix("data: ")) for block in body.decode().split("\n\n") if block]
    assert [event["type"] for event in events] == ["speech.audio.delta"] * (len(events) - 1) + ["speech.audio.done"]
    return b"".join(base64.b64decode(event["audio"]) for event in events[:-1])


@pytest.fixture(scope="module")
def pcm(openai_client):
    """The samples all other formats are held against."""
    return decode_pcm(openai_client.audio.speech.create(**SPEECH, response_format="pcm", extra_body=SEED).content)


@pytest.mark.parametrize("response_format", CONTAINERS)
def test_a_file_decodes_to_the_samples_of_pcm(openai_client, pcm, response_format):
    """The length is that of pcm times the ratio of the rates, rounded half to even; here always a whole number."""
    file = openai_client.audio.speech.create(**SPEECH, response_format=response_format, extra_body=SEED).content
    decoded = decode(file)
    assert (decoded.codec, decoded.rate_hz) == CONTAINERS[response_format]
    assert decoded.channels == 1
    expected = round(len(pcm) * decoded.rate_hz / PCM_HZ)
    num_extra = len(decoded.samples) - expected
    priming, tail = PRIMING.get(response_format, 0), TAIL.get(response_format, 0)
    assert priming <= num_extra <= priming + tail
    step = decoded.rate_hz // PCM_HZ
    heard = decoded.samples[priming : priming + expected : step]
    if response_format in ("wav", "flac"):
        np.testing.assert_array_equal(heard, pcm)
    assert np.corrcoef(heard, pcm)[0, 1] > 0.9


@pytest.mark.parametrize("sample_rate", [8000, 11025, 44100])
@pytest.mark.parametrize("response_format", ["pcm", "wav", "flac"])
def test_another_sample_rate_keeps_the_duration_to_the_sample(openai_client, pcm, response_format, sample_rate):
    extra = {**SEED, "sample_rate": sample_rate}
    file = openai_client.audio.speech.create(**SPEECH, response_format=response_format, extra_body=extra).content
    samples = decode_pcm(file) if response_format == "pcm" else decode(file).samples
    assert len(samples) == round(len(pcm) * sample_rate / PCM_HZ)


@pytest.mark.parametrize("response_format", FORMATS)
async def test_every_way_to_ask_gives_the_same_file(openai_client, async_client, tmp_path, response_format):
    options = {**SPEECH, "response_format": response_format, "extra_body": SEED}
    whole = openai_client.audio.speech.create(**options).content
    assert whole

    speech = openai_client.audio.speech
    with speech.with_streaming_response.create(**options) as response:
        response.stream_to_file(tmp_path / "streamed")
    assert (tmp_path / "streamed").read_bytes() == whole
    assert audio_of_events(speech.create(**options, stream_format="sse").content) == whole
    with speech.with_streaming_response.create(**options, stream_format="sse") as response:
        assert audio_of_events(b"".join(response.iter_bytes(1000))) == whole

    speech = async_client.audio.speech
    assert (await speech.create(**options)).content == whole
    async with speech.with_streaming_response.create(**options) as response:
        assert b"".join([part async for part in response.iter_bytes(777)]) == whole
    assert audio_of_events((await speech.create(**options, stream_format="sse")).content) == whole
    async with speech.with_streaming_response.create(**options, stream_format="sse") as response:
        assert audio_of_events(("\n".join([line async for line in response.iter_lines()]) + "\n").encode()) == whole


def test_mp3_is_what_one_gets_without_asking(openai_client):
    response = openai_client.audio.speech.with_raw_response.create(**SPEECH)
    assert response.headers["content-type"] == "audio/mpeg"
    assert decode(response.content).codec == "mp3float"


def test_the_first_audio_comes_before_the_last_is_made(openai_client):
    with openai_client.audio.speech.with_streaming_response.create(
        **{**SPEECH, "input": TEXT * 15}, response_format="pcm"
    ) as response:
        sizes = [len(part) for part in response.iter_bytes()]
    assert len(sizes) > 20
    assert sizes[0] < sum(sizes) / 20


def test_a_voice_may_be_an_object_with_an_id(openai_client):
    options = {"model": "tts-1", "input": TEXT, "response_format": "pcm", "extra_body": SEED}
    as_text, as_object = [
        openai_client.audio.speech.create(**options, voice=voice).content for voice in ("coral", {"id": "coral"})
    ]
    assert as_text == as_object


def test_the_voices_of_openai_are_13_different_voices(openai_client):
    replies = {
        openai_client.audio.speech.create(
            model="gpt-4o-mini-tts", voice=name, input="Hello there.", response_format="pcm", extra_body=SEED
        ).content
        for name in OPENAI_NAMES
    }
    assert len(replies) == len(OPENAI_NAMES) == 13


@pytest.mark.parametrize("model", ["tts-1", "tts-1-hd", "gpt-4o-mini-tts", "hibari"])
def test_a_model_is_listed_found_and_speaks(openai_client, model):
    assert model in {entry.id for entry in openai_client.models.list()}
    found = openai_client.models.retrieve(model)
    assert (found.id, found.object) == (model, "model")
    reply = openai_client.audio.speech.create(model=model, voice="nova", input="Hello.", response_format="wav")
    assert len(decode(reply.content).samples) > 0.2 * PCM_HZ


def test_what_has_no_effect_is_ignored(openai_client):
    plain = openai_client.audio.speech.create(**SPEECH, response_format="pcm", extra_body=SEED).content
    extended = openai_client.audio.speech.create(
        **SPEECH,
        response_format="pcm",
        instructions="Speak like a pirate.",
        extra_body={**SEED, "stream": True, "user": "me", "lang_code": "a", "volume_multiplier": {"x": [1]}},
        extra_query={"api-version": "2025-03-01"},
        extra_headers={"x-anything": "1"},
    ).content
    assert extended == plain


def test_every_reply_has_a_request_id(openai_client):
    response = openai_client.audio.speech.with_raw_response.create(**SPEECH)
    with openai_client.audio.speech.with_streaming_response.create(**SPEECH) as streamed:
        assert streamed.request_id.startswith("req_")
        assert streamed.request_id != response.request_id
    assert response.request_id.startswith("req_")


REFUSED = {
    "no such voice": (
        {"voice": "nobody"}, openai.BadRequestError, "voice_not_found", "voice",
    ),
    "no such voice id": (
        {"voice": {"id": "voice_1"}}, openai.BadRequestError, "voice_not_found", "voice",
    ),
    "no such model": (
        {"model": "gpt-9"}, openai.NotFoundError, "model_not_found", "model",
    ),
    "no such format": (
        {"response_format": "mp4"}, openai.BadRequestError, "invalid_value", "response_format",
    ),
    "too fast": (
        {"speed": 9.0}, openai.BadRequestError, "invalid_value", "speed",
    ),
    "too long": (
        {"input": "a " * 3000}, openai.BadRequestError, "string_above_max_length", "input",
    ),
    "nothing to speak": (
        {"input": "..."}, openai.BadRequestError, "nothing_to_speak", "input",
    ),
    "no rate of the format": (
        {"response_format": "opus", "extra_body": {"sample_rate": 44100}}, openai.BadRequestError,
        "unsupported_sample_rate", "sample_rate",
    ),
    "a foreign host": (
        {"extra_headers": {"host": "evil.example"}}, openai.PermissionDeniedError, "forbidden_host", None,
    ),
    "a huge body": (
        {"input": "a" * 5_000_000}, openai.APIStatusError, "request_too_large", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "error", "code", "param"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refusal_is_the_sdks_error_and_is_not_retried(counting_client, requests_sent, changes, error, code, param):
    with pytest.raises(error) as caught:
        counting_client.audio.speech.create(**{**SPEECH, **changes})
    refusal = caught.value
    assert (refusal.code, refusal.param, refusal.type) == (code, param, "invalid_request_error")
    assert refusal.request_id.startswith("req_")
    assert refusal.body["message"]
    assert len(requests_sent) == 1


def test_an_error_before_streaming_is_raised_when_the_stream_is_opened(openai_client):
    with (
        pytest.raises(openai.BadRequestError),
        openai_client.audio.speech.with_streaming_response.create(**{**SPEECH, "voice": "nobody"}),
    ):
        pytest.fail("a refused request was opened")


async def test_an_async_refusal_is_the_same(async_client):
    with pytest.raises(openai.BadRequestError) as caught:
        await async_client.audio.speech.create(**{**SPEECH, "voice": "nobody"})
    assert (caught.value.code, caught.value.param) == ("voice_not_found", "voice")


def test_an_unknown_model_or_path_is_not_found(openai_client):
    with pytest.raises(openai.NotFoundError) as caught:
        openai_client.models.retrieve("gpt-9")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError) as caught:
        openai_client.audio.transcriptions.create(model="whisper-1", file=b"RIFF")
    assert caught.value.code == "not_found"


async def test_a_request_that_meets_no_worker_is_retried_until_one_is_there(settings):
    """A worker that restarts costs its clients a wait, no error."""
    answers = []

    async def note(response):
        answers.append((response.request.headers["x-stainless-retry-count"], response.status_code))

    http_client = DefaultAsyncHttpxClient(event_hooks={"response": [note]})
    async with (
        running_stack(settings) as stack,
        AsyncOpenAI(base_url=f"{stack.url}/v1", api_key="none", http_client=http_client) as client,
    ):
        with pytest.raises(openai.InternalServerError) as caught:
            await client.with_options(max_retries=0).audio.speech.create(model="tts-1", voice="low", input="abc")
        assert (caught.value.status_code, caught.value.code) == (503, "model_unavailable")
        assert caught.value.response.headers["retry-after"]
        answers.clear()
        asking = asyncio.create_task(client.audio.speech.create(model="tts-1", voice="low", input="abc"))
        await eventually(lambda: answers)
        await stack.start_worker(ToneEngine())
        assert (await asking).content
    assert answers == [("0", 503), ("1", 200)]
