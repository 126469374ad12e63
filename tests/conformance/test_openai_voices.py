"""Custom voices through the official Python SDK, against the real stack with the embedded engine."""

import openai
import pytest

from tests.conformance.audio import decode
from tests.support.clips import coded, speech, wav

TEXT = "A short sentence."

CLIPS = {
    "m4a": ("clip.m4a", coded(speech(2.0, 110), "ipod", "aac", rate_hz=44100)),
    "webm": ("clip.webm", coded(speech(2.0, 140), "webm", "libopus", rate_hz=48000)),
    "stereo wav at 48 kHz": ("clip.wav", wav(speech(2.0, 170, 48000), 48000, channels=2)),
}


def spoken(client: openai.OpenAI, voice: object) -> bytes:
    reply = client.audio.speech.create(
        model="tts-1", voice=voice, input=TEXT, response_format="wav", extra_body={"seed": 1}
    )
    return reply.content


@pytest.mark.parametrize(("file_name", "clip"), CLIPS.values(), ids=CLIPS.keys())
def test_a_consent_and_a_voice_are_made_spoken_with_and_deleted(openai_client, file_name, clip):
    consents, voices = openai_client.audio.voice_consents, openai_client.audio.voices
    consent = consents.create(name="Ann agrees", language="en-US", recording=(file_name, clip))
    assert consent.object == "audio.voice_consent"
    assert consents.retrieve(consent.id).name == "Ann agrees"
    assert consents.update(consent.id, name="Ann").name == "Ann"
    assert consent.id in [item.id for item in consents.list()]
    voice = voices.create(name="sdk ann", consent=consent.id, audio_sample=(file_name, clip))
    assert (voice.object, voice.name) == ("audio.voice", "sdk ann")
    sounds = {spoken(openai_client, wanted) for wanted in (voice.id, {"id": voice.id}, "sdk ann")}
    (sound,) = sounds
    assert len(decode(sound).samples) > 8000
    assert sound != spoken(openai_client, "alloy")
    assert voices.delete(voice.id).deleted is True
    assert consents.delete(consent.id).deleted is True
    for gone in (voice.id, {"id": voice.id}, "sdk ann"):
        with pytest.raises(openai.BadRequestError) as refused:
            spoken(openai_client, gone)
        assert (refused.value.code, refused.value.param) == ("voice_not_found", "voice")
    with pytest.raises(openai.NotFoundError):
        voices.delete(voice.id)
    with pytest.raises(openai.NotFoundError):
        consents.retrieve(consent.id)


def test_a_refused_clip_is_a_bad_request_that_is_not_tried_again(openai_client):
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.audio.voices.create(name="bad", consent="yes", audio_sample=("clip.wav", b"no audio"))
    assert (refused.value.code, refused.value.param) == ("clip_not_audio", "audio_sample")
    with pytest.raises(openai.APIStatusError) as too_large:
        openai_client.audio.voices.create(
            name="bad", consent="yes", audio_sample=("clip.wav", bytes(10 * 1024 * 1024 + 1))
        )
    assert too_large.value.status_code == 413
