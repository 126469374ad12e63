"""A clip sent with a request: the voice of this request, and of nothing else."""

import base64

import pytest

from tests.support.clips import coded, speech, wav
from tests.support.engines import ToneEngine
from tests.support.stack import running_stack
from tests.support.voices import Api, error_of, num_rows, stored_files


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_a_request_speaks_like_its_clip_and_nothing_is_stored(api, stack, ann, bob):
    with_ann = await api.say("low", reference_audio=encoded(ann))
    assert with_ann.status_code == 200, with_ann.text
    with_bob = await api.say("low", reference_audio=encoded(bob))
    assert len({with_ann.content, with_bob.content, (await api.say("low")).content}) == 3
    assert (await api.say("low", reference_audio=encoded(ann))).content == with_ann.content
    assert len(stack.engine.profiled) == 2
    assert stored_files(stack.settings) == set()
    assert set((await num_rows(stack.settings)).values()) == {0}


async def test_a_reference_and_a_voice_of_one_clip_share_the_extraction(api, stack, ann):
    spoken = (await api.say("low", reference_audio=encoded(ann))).content
    await api.add(ann, "ann")
    assert (await api.say("ann")).content == spoken
    assert len(stack.engine.profiled) == 1


async def test_any_format_that_can_be_uploaded_can_be_a_reference(api):
    clip = coded(speech(2.0), "webm", "libopus", rate_hz=48000)
    assert (await api.say("low", reference_audio=encoded(clip))).status_code == 200


REFUSED = {
    "url": ("https://example.com/clip.wav", "invalid_value"),
    "data url": ("data:audio/wav;base64,UklGRg==", "invalid_value"),
    "not base64": ("***", "invalid_value"),
    "empty": ("", "clip_not_audio"),
    "not audio": (encoded(b"PK\x03\x04 a zip"), "clip_not_audio"),
    "silence": (encoded(wav(speech(2.0) * 0)), "clip_silent"),
    "too short": (encoded(wav(speech(0.3))), "clip_too_short"),
}


@pytest.mark.parametrize(("reference", "code"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_clip_that_cannot_be_used_is_refused_before_a_job(api, stack, reference, code):
    assert error_of(await api.say("low", reference_audio=reference)) == (400, code, "reference_audio")
    assert stack.engine.requests == []
    assert await stack.keys() == set()


async def test_a_model_with_presets_only_takes_no_clip(settings, ann):
    async with running_stack(settings, ToneEngine()) as stack, stack.client() as client:
        api = Api(client)
        refused = await api.say("low", reference_audio=encoded(ann))
        assert error_of(refused) == (400, "unsupported_parameter", "reference_audio")
        await api.add(ann)
        assert error_of(await api.say("ann")) == (400, "unsupported_parameter", "voice")
