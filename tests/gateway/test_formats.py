"""What each format of a reply holds, read by hand from the bytes a client gets."""

import msgspec
import pytest

from shared.formats import AudioFormat
from shared.settings import BitRateSettings
from tests.conftest import tone_settings
from tests.support import webm
from tests.support.engines import ToneEngine
from tests.support.ogg import END_OF_STREAM, ogg_pages, opus_head
from tests.support.stack import running_stack
from tests.support.webm import elements, head_and_clusters, opus_seconds

pytestmark = pytest.mark.asyncio(loop_scope="module")

# 50 characters are 50 ms of the tone engine.
REQUEST = {"model": "tts-1", "input": "The quick brown fox jumps over it. " * 10, "voice": "low", "seed": 11}


async def speak(client, **changes):
    response = await client.post("/v1/audio/speech", json={**REQUEST, **changes})
    assert response.status_code == 200, response.text
    return response


async def pcm_seconds(client, **changes) -> float:
    return len((await speak(client, response_format="pcm", **changes)).content) / 2 / 24000


@pytest.mark.parametrize("sample_rate", [8000, 16000, 24000, None])
@pytest.mark.parametrize("speed", [1.0, 1.3])
async def test_opus_lasts_as_long_as_pcm_at_every_sample_rate(shared_client, sample_rate, speed):
    """O7: https://github.com/openclaw/openclaw/pull/32298 - Ogg Opus counts at 48 kHz whatever goes in."""
    response = await speak(shared_client, response_format="opus", sample_rate=sample_rate, speed=speed)
    pages = ogg_pages(response.content)
    channels, pre_skip, input_hz = opus_head(pages[0])
    assert (channels, input_hz) == (1, sample_rate or 48000)
    assert response.headers["x-sample-rate"] == str(input_hz)
    assert pages[-1].flags & END_OF_STREAM
    assert not any(page.flags & END_OF_STREAM for page in pages[:-1])
    seconds = (pages[-1].granule - pre_skip) / 48000
    assert seconds == pytest.approx(await pcm_seconds(shared_client, speed=speed), abs=0.001)


@pytest.mark.parametrize("sample_rate", [8000, 16000, 24000, None])
async def test_webm_lasts_as_long_as_pcm_at_every_sample_rate(shared_client, sample_rate):
    response = await speak(shared_client, response_format="webm", sample_rate=sample_rate)
    assert opus_seconds(response.content) == pytest.approx(await pcm_seconds(shared_client), abs=0.001)


async def test_webm_is_what_a_media_source_takes(shared_client):
    """O6: https://github.com/remsky/Kokoro-FastAPI/issues/103 - no browser's MediaSource has Ogg."""
    response = await speak(shared_client, response_format="webm")
    assert response.headers["content-type"] == "audio/webm; codecs=opus"
    parts = list(elements(response.content))
    assert [part.size for part in parts if part.id == webm.SEGMENT] == [None]
    assert webm.CUES not in [part.id for part in parts]
    _, clusters = head_and_clusters(response.content)
    second_ms = int.from_bytes(next(elements(clusters[1])).first(webm.TIMESTAMP))
    assert second_ms <= 100


@pytest.mark.parametrize(("audio_format", "content_type"), [("ulaw", "audio/basic"), ("alaw", "audio/PCMA;rate=8000")])
async def test_g711_is_a_byte_for_each_sample_and_no_header(shared_client, audio_format, content_type):
    """O8: https://github.com/twilio-labs/call-gpt/issues/33 - a header is heard as a click."""
    response = await speak(shared_client, response_format=audio_format)
    assert response.headers["content-type"] == content_type
    assert response.headers["x-sample-rate"] == "8000"
    assert len(response.content) == round(8000 * await pcm_seconds(shared_client))


async def test_a_bit_rate_is_that_of_the_frames(shared_client):
    sizes = {
        bit_rate: len((await speak(shared_client, response_format="mp3", bit_rate=bit_rate)).content)
        for bit_rate in (32000, 64000, 128000)
    }
    assert sizes[64000] == pytest.approx(2 * sizes[32000], rel=0.01)
    assert sizes[128000] == pytest.approx(4 * sizes[32000], rel=0.01)
    assert sizes[64000] == len((await speak(shared_client, response_format="mp3")).content)


async def test_the_operators_default_holds_where_a_request_names_no_bit_rate(redis_url, tmp_path):
    settings = msgspec.structs.replace(tone_settings(redis_url, tmp_path), bit_rates=BitRateSettings(mp3=128000))
    async with running_stack(settings, ToneEngine(chunk_chars=50)) as stack, stack.client() as client:

        async def size(**changes) -> int:
            return len((await speak(client, response_format=AudioFormat.MP3, **changes)).content)

        assert await size() == await size(bit_rate=128000)
        assert await size(bit_rate=32000) == pytest.approx(await size() / 4, rel=0.01)
        # 8 kHz has no 128 kbit/s.
        assert await size(sample_rate=8000) == await size(sample_rate=8000, bit_rate=64000)
