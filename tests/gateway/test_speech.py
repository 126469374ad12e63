"""POST /v1/audio/speech and /synthesize: the reply as clients see it."""

import base64
import json

import numpy as np
import pytest

from shared.formats import FORMATS, AudioFormat
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

REQUEST = {"model": "tts-1", "input": "Hello there. Good day.", "voice": "low", "seed": 11}


async def speak(client, **changes):
    response = await client.post("/v1/audio/speech", json={**REQUEST, **changes})
    assert response.status_code == 200, response.text
    return response


def sse_events(text: str) -> list[dict]:
    blocks = text.removesuffix("\n\n").split("\n\n")
    assert all(block.startswith("data: ") and "\n" not in block for block in blocks)
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


@pytest.mark.parametrize("audio_format", list(AudioFormat))
async def test_the_content_type_is_that_of_the_format_whatever_is_accepted(shared_client, audio_format):
    response = await shared_client.post(
        "/v1/audio/speech",
        json={**REQUEST, "response_format": audio_format},
        headers={"accept": "application/octet-stream", "accept-encoding": "gzip, deflate, br"},
    )
    assert response.headers["content-type"] == FORMATS[audio_format].content_type
    assert "content-encoding" not in response.headers
    assert response.headers["x-sample-rate"] == str(FORMATS[audio_format].default_rate_hz)
    assert response.headers["x-request-id"].startswith("req_")
    assert int(response.headers["openai-processing-ms"]) >= 0


@pytest.mark.parametrize("audio_format", list(AudioFormat))
async def test_sse_carries_slices_of_the_very_same_file_and_then_the_usage(shared_client, audio_format):
    whole = await speak(shared_client, response_format=audio_format)
    streamed = await speak(shared_client, response_format=audio_format, stream_format="sse")
    assert streamed.headers["content-type"].startswith("text/event-stream")
    *deltas, done = sse_events(streamed.text)
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(delta["audio"]) for delta in deltas) == whole.content
    usage = done["usage"]
    assert done["type"] == "speech.audio.done"
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["input_tokens"] > 0
    assert usage["output_tokens"] > 0


async def test_mp3_is_the_default(shared_client):
    assert (await speak(shared_client)).headers["content-type"] == "audio/mpeg"


async def test_a_streamed_wav_has_streaming_sizes_and_the_samples_of_pcm(shared_client):
    pcm = (await speak(shared_client, response_format="pcm")).content
    wav = (await speak(shared_client, response_format="wav")).content
    assert wav[:4] == b"RIFF"
    assert wav[4:8] == wav[40:44] == b"\xff\xff\xff\xff"
    assert wav[44:] == pcm


async def test_the_simple_route_answers_a_whole_wav_with_exact_sizes(shared_client):
    response = await shared_client.post("/synthesize", json={"text": "Hello there.", "seed": 3})
    wav = response.content
    assert response.headers["content-type"] == "audio/wav"
    assert int.from_bytes(wav[4:8], "little") == len(wav) - 8
    assert int.from_bytes(wav[40:44], "little") == len(wav) - 44
    assert int(response.headers["content-length"]) == len(wav)
    assert np.abs(np.frombuffer(wav[44:], "<i2")).max() > 1000


async def test_the_simple_route_speaks_with_the_default_voice_or_the_named_one(shared_client):
    async def wav(**changes):
        return (await shared_client.post("/synthesize", json={"text": "Hello.", "seed": 3, **changes})).content

    assert await wav() == await wav(voice="low")
    assert await wav() != await wav(voice="high")


async def test_a_seed_repeats_the_bytes_and_no_seed_does_not(shared_client):
    first = (await speak(shared_client, response_format="pcm")).content
    assert first == (await speak(shared_client, response_format="pcm")).content
    assert first != (await speak(shared_client, response_format="pcm", seed=None)).content


async def test_the_sample_rate_can_be_chosen(shared_client):
    base = (await speak(shared_client, response_format="pcm")).content
    for rate_hz in (8000, 48000):
        response = await speak(shared_client, response_format="pcm", sample_rate=rate_hz)
        assert response.headers["x-sample-rate"] == str(rate_hz)
        assert len(response.content) == pytest.approx(len(base) * rate_hz / 24000, abs=4)


async def test_normalisation_can_be_switched_off(shared_client, shared_stack):
    for normalize, spoken in ((True, "twenty-three"), (False, "23")):
        await speak(shared_client, input="It costs 23.", normalize=normalize)
        assert spoken in shared_stack.engine.requests[-1].segment.text


async def test_words_are_said_as_the_lexicon_of_the_request_says(shared_client, shared_stack):
    await speak(shared_client, input="The Gepard runs.", lexicon={"Gepard": "gay part"})
    assert shared_stack.engine.requests[-1].segment.text == "The gay part runs."


async def test_a_pause_is_silence_of_its_length(shared_client, shared_stack):
    """The tone engine speaks 50 ms for each of these texts."""
    response = await speak(shared_client, input="Hello. [pause 700ms] Bye.", pauses=True, response_format="pcm")
    samples = np.frombuffer(response.content, "<i2")
    assert [request.segment.text for request in shared_stack.engine.requests[-2:]] == ["Hello.", "Bye."]
    assert len(samples) == 1200 + 16800 + 1200
    assert not samples[1200:-1200].any()
    assert all(np.abs(part).max() > 1000 for part in (samples[:1200], samples[-1200:]))


@pytest.mark.parametrize("pauses", [False, None])
async def test_a_pause_is_text_unless_it_is_asked_for(shared_client, shared_stack, pauses):
    await speak(shared_client, input="Hello. [pause 700ms] Bye.", pauses=pauses)
    assert "pause seven hundred" in shared_stack.engine.requests[-1].segment.text


async def test_invisible_characters_change_nothing(shared_client):
    """O2: https://github.com/ken107/read-aloud/issues/425"""
    plain = "The general prerequisites are simple, said Anna."
    marked = "The gen\u200beral pre\u00adreq\u00adui\u00adsites are sim\u2060ple, said \u2068Anna\u2069."
    one, two = [(await speak(shared_client, input=text, response_format="pcm")).content for text in (plain, marked)]
    assert one == two


async def test_nothing_of_a_request_stays_in_redis(shared_client, shared_stack):
    await speak(shared_client)
    await eventually(lambda: _no_keys(shared_stack))


async def _no_keys(stack) -> bool:
    return await stack.keys() == set()
