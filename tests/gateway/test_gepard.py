"""Gepard through the API, with the tiny model: formats, seeds, guidance, voices, hang-up, resuming."""

import asyncio
import base64
import io

import av
import numpy as np
import pytest
import pytest_asyncio
from msgspec.structs import replace
from redis import Redis

pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")

from shared.contracts import Audio, Done, PresetVoice, ResumePoint, Sampling, Segment
from tests.conftest import tone_settings
from tests.support.clips import speech as voiced
from tests.support.clips import wav
from tests.support.jobs import speech_job
from tests.support.stack import running_stack
from tests.support.tiny_gepard import VOICES, tiny_engine
from tests.support.voices import Api
from tests.support.waiting import eventually
from tests.support.workers import Asker, audio_of
from workers.engines.hibari_finish import PAUSE_S
from workers.resume import ResumeShares

TEXT = "A sentence that is long enough to be sent as it comes, and a little more."
FRAMES = 20
SECONDS = FRAMES * 1024 / 22050 + PAUSE_S["end"]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(valkey_url, tmp_path_factory):
    with Redis.from_url(valkey_url) as redis:
        redis.flushall()
    folder = tmp_path_factory.mktemp("gepard")
    settings = replace(tone_settings(valkey_url, folder), model="gepard", default_voice="alloy")
    engine = tiny_engine(folder)
    async with running_stack(settings, engine) as stack:
        stack.engine = engine
        yield stack


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(stack):
    async with stack.client() as client:
        yield client


async def speech(client, **changes):
    """The body of a reply that was a 200."""
    body = {
        "model": "tts-1",
        "input": TEXT,
        "voice": "alloy",
        "response_format": "pcm",
        "seed": 1,
        "temperature": 1.0,
        "stop_threshold": 1.0,
        "max_frames": FRAMES,
        **changes,
    }
    response = await client.post("/v1/audio/speech", json=body)
    assert response.status_code == 200, response.text
    return response


@pytest.mark.parametrize("audio_format", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
async def test_every_format_has_the_sound_of_all_frames(client, audio_format):
    response = await speech(client, response_format=audio_format)
    if audio_format == "pcm":
        seconds = len(response.content) / 2 / 24000
    else:
        with av.open(io.BytesIO(response.content)) as container:
            frames = list(container.decode(audio=0))
        seconds = sum(frame.samples for frame in frames) / frames[0].sample_rate
    assert seconds == pytest.approx(SECONDS, abs=0.15)


def difference(one, other):
    """The largest difference of two sounds as long as each other, in steps of 16 bits; else all of them.

    Codes are equal bit for bit. The codec sums in another order when a stream is cut otherwise, which rounds
    to the next step now and then, once in the host and once in the reply.
    """
    if len(one) != len(other):
        return 65536
    return np.abs(np.frombuffer(one, "<i2").astype(int) - np.frombuffer(other, "<i2")).max()


async def test_the_same_seed_gives_the_same_speech_and_another_one_other(client):
    first, again, other = [(await speech(client, seed=seed)).content for seed in (1, 1, 2)]
    assert difference(first, again) <= 2
    assert difference(first, other) > 2


async def test_guidance_is_honoured(client):
    plain, one, three = [(await speech(client, cfg_scale=scale)).content for scale in (None, 1.0, 3.0)]
    assert difference(plain, one) <= 2
    assert difference(plain, three) > 2


async def test_usage_counts_text_tokens_and_frames(client):
    response = await speech(client, stream_format="sse")
    assert f'"output_tokens":{FRAMES}' in response.text
    assert "speech.audio.done" in response.text


async def test_its_voices_are_listed_and_others_refused_by_name(client):
    names = {voice["id"] for voice in (await client.get("/v1/voices")).json()["data"]}
    assert names >= {*VOICES, "nova"}
    refused = await client.post("/v1/audio/speech", json={"model": "gepard", "input": TEXT, "voice": "heart"})
    assert refused.json()["error"]["code"] == "voice_not_found"
    assert "alloy" in refused.json()["error"]["message"]


async def test_short_sentences_are_merged_for_the_model(stack, client):
    """It fails on very short texts: ten of them are one segment."""
    steps = stack.engine.steps
    response = await speech(client, input="Yes. No. Yes. No. Yes. No. Yes. No. Yes. No.", stream_format="sse")
    assert f'"output_tokens":{FRAMES}' in response.text
    assert steps.num_streams == 0


async def test_a_client_that_hangs_up_frees_the_places(stack, client):
    steps = stack.engine.steps
    body = {"model": "gepard", "voice": "alloy", "input": TEXT * 20, "stop_threshold": 1.0, "response_format": "pcm"}
    async with client.stream("POST", "/v1/audio/speech", json=body) as response:
        async for _ in response.aiter_raw():
            break
        assert steps.num_streams == 1
    await eventually(lambda: steps.num_streams == 0)
    assert stack.engine.num_free_slots == 16
    await eventually(lambda: no_reply_left(stack))


async def no_reply_left(stack):
    return not any(":reply:" in key for key in await stack.keys())


async def test_many_at_once_are_each_as_alone(client):
    texts = [f"{TEXT} Number {number}." for number in range(6)]
    alone = [(await speech(client, input=text, voice=VOICES[n % 3])).content for n, text in enumerate(texts)]
    together = await asyncio.gather(
        *(speech(client, input=text, voice=VOICES[n % 3]) for n, text in enumerate(texts)),
    )
    for one, response in zip(alone, together, strict=True):
        assert difference(one, response.content) <= 2
    assert len({*alone}) == len(texts)


async def test_another_worker_goes_on_from_the_codes_that_came_with_the_audio(stack):
    """With another seed: what has been heard is decided by the codes alone."""
    asker = Asker(stack.settings.redis.url)
    segments = tuple(Segment(text=f"{TEXT} {name}", boundary="end") for name in ("One.", "Two."))
    job = speech_job(
        "whole",
        model="gepard",
        voice=PresetVoice(name="alloy"),
        segments=segments,
        sampling=Sampling(temperature=1.0, stop_threshold=1.0, max_frames=FRAMES),
    )
    whole = await asker.ask(job, within_s=30)
    audio = [event for event in whole if isinstance(event, Audio)]
    assert sum(len(event.resume) for event in audio) > 2 * FRAMES * 32
    # Cut where the second segment has begun.
    half = len(audio) * 3 // 4
    heard = audio[:half]
    point = ResumePoint(packets=sum(event.packets for event in heard), state=b"".join(event.resume for event in heard))
    again = replace(job, id="again", attempt=2, resume=point)
    rest = await asker.ask(again, within_s=30)
    other_seed = await asker.ask(replace(job, id="other", attempt=2, seed=99, resume=point), within_s=30)
    await asker.redis.aclose(close_connection_pool=True)
    assert isinstance(rest[-1], Done)
    assert len(audio_of(heard)) + len(audio_of(rest)) == len(audio_of(whole))
    assert difference(audio_of(whole)[len(audio_of(heard)) :], audio_of(rest)) <= 2
    told = [codes_of(events) for events in (whole, heard, rest)]
    assert told[0] == {segment: told[1].get(segment, b"") + told[2].get(segment, b"") for segment in told[0]}
    # The first sound after the cut belongs to codes already sent; later sound to the other seed.
    assert audio_of(other_seed) != audio_of(rest)


def codes_of(events):
    """The codes that came with the audio, by segment."""
    state = b"".join(event.resume for event in events if isinstance(event, Audio))
    return {segment: ResumeShares(state).of(segment) for segment in (0, 1)}


async def test_an_uploaded_voice_and_the_same_clip_as_a_reference_speak_alike_and_like_no_other(client):
    ann, bob = [wav(voiced(2.0, pitch_hz=pitch_hz)) for pitch_hz in (110, 170)]
    api = Api(client)
    voice = await api.settled((await api.add(ann, "gepard-ann"))["id"])
    assert (voice["status"], voice["models"][0]["kind"]) == ("ready", "cloned")
    uploaded = (await speech(client, voice=voice["id"])).content
    assert difference(uploaded, (await speech(client, voice="gepard-ann")).content) <= 2
    assert difference(uploaded, (await speech(client, reference_audio=base64.b64encode(ann).decode())).content) <= 2
    assert difference(uploaded, (await speech(client, reference_audio=base64.b64encode(bob).decode())).content) > 2
    assert difference(uploaded, (await speech(client)).content) > 2
    assert (await api.delete(voice["id"])).status_code == 200
    refused = await client.post("/v1/audio/speech", json={"model": "gepard", "input": TEXT, "voice": voice["id"]})
    assert refused.json()["error"]["code"] == "voice_not_found"
