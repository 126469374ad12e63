"""Consents: kept recordings that voices may have to rest on."""

import msgspec
import pytest

from tests.support.stack import running_stack
from tests.support.voices import Api, assert_nothing_left, error_of, stored_files

CONSENTS = "/v1/audio/voice_consents"


async def record(client, data: bytes, name: str = "Ann agrees", language: str = "en-US"):
    return await client.post(
        CONSENTS, data={"name": name, "language": language}, files={"recording": ("c.wav", data, "audio/wav")}
    )


async def test_a_consent_from_recording_to_deletion(api, stack, ann):
    made = await record(api.client, ann)
    assert made.status_code == 200, made.text
    consent = made.json()
    assert consent["id"].startswith("cons_")
    assert (consent["object"], consent["name"], consent["language"]) == ("audio.voice_consent", "Ann agrees", "en-US")
    assert abs(consent["created_at"]) > 1_700_000_000
    one = f"{CONSENTS}/{consent['id']}"
    assert (await api.client.get(one)).json() == consent
    assert (await api.client.get(CONSENTS)).json()["data"] == [consent]
    renamed = await api.client.post(one, json={"name": "Ann, 2026"})
    assert (renamed.status_code, renamed.json()["name"]) == (200, "Ann, 2026")
    assert len(stored_files(stack.settings)) == 1
    deleted = await api.client.delete(one)
    assert (deleted.status_code, deleted.json()["deleted"]) == (200, True)
    assert error_of(await api.client.get(one)) == (404, "not_found", None)
    await assert_nothing_left(stack)


async def test_consents_are_listed_in_pages(api, ann):
    made = [(await record(api.client, ann, f"c {number}")).json()["id"] for number in range(3)]
    first = (await api.client.get(CONSENTS, params={"limit": 2})).json()
    assert ([item["id"] for item in first["data"]], first["has_more"]) == (made[:2], True)
    second = (await api.client.get(CONSENTS, params={"limit": 2, "after": first["last_id"]})).json()
    assert ([item["id"] for item in second["data"]], second["has_more"]) == (made[2:], False)


async def test_a_consent_that_a_voice_rests_on_stays(api, stack, ann, bob):
    consent = (await record(api.client, bob)).json()
    voice = await api.add(ann, consent=consent["id"])
    assert voice["consent"] == consent["id"]
    assert error_of(await api.client.delete(f"{CONSENTS}/{consent['id']}")) == (400, "consent_in_use", None)
    await api.delete(voice["id"])
    assert (await api.client.delete(f"{CONSENTS}/{consent['id']}")).status_code == 200
    await assert_nothing_left(stack)


async def test_a_clip_that_is_also_a_consent_is_kept_for_it(api, stack, ann):
    consent = (await record(api.client, ann)).json()
    voice = await api.add(ann, consent=consent["id"])
    await api.settled(voice["id"])
    await api.delete(voice["id"])
    assert len(stored_files(stack.settings)) == 1
    assert not {key for key in await stack.keys() if "profile" in key or "clip" in key}
    await api.client.delete(f"{CONSENTS}/{consent['id']}")
    await assert_nothing_left(stack)


async def test_any_statement_is_a_consent_unless_a_recording_is_required(settings, engine, ann, bob):
    settings = msgspec.structs.replace(settings, voices=msgspec.structs.replace(settings.voices, require_consent=True))
    async with running_stack(settings, engine) as stack, stack.client() as client:
        api = Api(client)
        for consent in ("she said yes", "cons_" + 24 * "0", "../../etc/passwd"):
            assert error_of(await api.upload(ann, consent=consent)) == (400, "consent_not_found", "consent")
        await assert_nothing_left(stack)
        stored = (await record(client, bob)).json()["id"]
        assert (await api.upload(ann, consent=stored)).status_code == 200


@pytest.mark.parametrize(
    ("data", "files", "code", "param"),
    [
        ({"language": "en"}, True, "missing_required_parameter", "name"),
        ({"name": "x"}, True, "missing_required_parameter", "language"),
        ({"name": "x", "language": "en"}, False, "missing_required_parameter", "recording"),
        ({"name": "x", "language": "the language of men"}, True, "invalid_value", "language"),
        ({"name": "x", "language": "en\n"}, False, "missing_required_parameter", "recording"),
        ({"name": "x" * 101, "language": "en"}, True, "string_above_max_length", "name"),
    ],
)
async def test_what_is_missing_or_wrong_is_named(api, stack, ann, data, files, code, param):
    files = {"recording": ("c.wav", ann)} if files else {"other": ("c.wav", ann)}
    assert error_of(await api.client.post(CONSENTS, data=data, files=files)) == (400, code, param)
    await assert_nothing_left(stack)
