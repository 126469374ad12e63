"""The life of a voice: uploaded, spoken with, renamed, deleted, and then gone."""

import msgspec
import pytest

from tests.support.stack import running_stack
from tests.support.voices import Api, assert_nothing_left, error_of, num_rows, stored_files


@pytest.mark.parametrize("path", ["/v1/voices", "/v1/audio/voices"])
@pytest.mark.parametrize("part", ["audio_sample", "file"])
async def test_a_voice_from_upload_to_deletion(api, stack, ann, path, part):
    api = Api(api.client, path)
    created = await api.upload(ann, "Ann", part=part, description="calm", language="en-US")
    assert created.status_code == 200, created.text
    voice = created.json()
    assert voice["id"].startswith("voice_")
    assert {key: voice[key] for key in ("object", "type", "name", "kind", "description", "language", "public")} == {
        "object": "audio.voice", "type": "audio_sample", "name": "Ann", "kind": "clip", "description": "calm",
        "language": "en-US", "public": False,
    }  # fmt: skip
    ready = await api.settled(voice["id"])
    assert ready["models"] == [{"model": "tone", "status": "ready", "kind": "matched", "reason": None}]
    spoken = {(await api.say(wanted)).content for wanted in (voice["id"], {"id": voice["id"]}, "Ann", "ANN", "ann")}
    assert len(spoken) == 1
    assert spoken != {(await api.say("low")).content}
    deleted = await api.delete(voice["id"])
    assert (deleted.status_code, deleted.json()) == (
        200, {"id": voice["id"], "deleted": True, "object": "audio.voice.deleted"},
    )  # fmt: skip
    assert error_of(await api.say("Ann")) == (400, "voice_not_found", "voice")
    assert error_of(await api.say(voice["id"])) == (400, "voice_not_found", "voice")
    assert error_of(await api.client.get(f"{path}/{voice['id']}")) == (404, "not_found", None)
    assert error_of(await api.delete(voice["id"])) == (404, "not_found", None)
    await assert_nothing_left(stack)


async def test_a_renamed_voice_keeps_its_id_and_sound(api, ann):
    voice = await api.add(ann, "ann")
    before = (await api.say("ann")).content
    renamed = await api.client.post(f"/v1/voices/{voice['id']}", json={"name": "Anna"})
    assert (renamed.status_code, renamed.json()["id"], renamed.json()["name"]) == (200, voice["id"], "Anna")
    assert (await api.say("anna")).content == before
    assert error_of(await api.say("ann")) == (400, "voice_not_found", "voice")


async def test_names_are_unique_whatever_their_case(api, ann, bob):
    await api.add(ann, "Ann")
    assert error_of(await api.upload(bob, " ann ")) == (400, "voice_exists", "name")
    other = await api.add(bob, "bob")
    refused = await api.client.post(f"/v1/voices/{other['id']}", json={"name": "ANN"})
    assert error_of(refused) == (400, "voice_exists", "name")
    assert (await api.client.post(f"/v1/voices/{other['id']}", json={"name": "BOB"})).status_code == 200


@pytest.mark.parametrize("name", ["low", "Alloy", "NOVA"])
async def test_a_built_in_name_cannot_be_taken(api, ann, name):
    assert error_of(await api.upload(ann, name)) == (400, "voice_exists", "name")


async def test_the_list_has_built_in_voices_first_then_pages_of_own_ones(api, ann):
    made = [(await api.add(ann, f"ann {number}"))["id"] for number in range(5)]
    first = (await api.client.get("/v1/voices", params={"limit": 2})).json()
    assert first["data"] == first["voices"]
    kinds = [voice["kind"] for voice in first["data"]]
    assert kinds.index("clip") == len(kinds) - 2 > 0
    assert first["has_more"] is True
    seen, page = [], first
    while page["has_more"]:
        seen += [voice["id"] for voice in page["data"] if voice["kind"] == "clip"]
        page = (await api.client.get("/v1/voices", params={"limit": 2, "after": page["last_id"]})).json()
    seen += [voice["id"] for voice in page["data"]]
    assert seen == made
    for params in ({"limit": 0}, {"limit": 101}, {"limit": "x"}):
        assert error_of(await api.client.get("/v1/voices", params=params)) == (400, "invalid_value", "limit")
    assert error_of(await api.client.get("/v1/voices", params={"after": "x"})) == (400, "invalid_value", "after")


async def test_a_page_goes_on_behind_a_deleted_voice(api, ann):
    made = [(await api.add(ann, f"ann {number}"))["id"] for number in range(3)]
    await api.delete(made[0])
    page = (await api.client.get("/v1/voices", params={"after": made[0]})).json()
    assert [voice["id"] for voice in page["data"]] == made[1:]


async def test_the_same_clip_is_extracted_and_stored_once(api, stack, ann):
    first = await api.add(ann, "ann")
    await api.settled(first["id"])
    second = await api.add(ann, "twin")
    assert (await api.settled(second["id"]))["status"] == "ready"
    assert (await api.say("ann")).content == (await api.say("twin")).content
    assert len(stack.engine.profiled) == 1
    assert len(stored_files(stack.settings)) == 1
    await api.delete(first["id"])
    assert len(stored_files(stack.settings)) == 1
    assert (await api.say("twin")).status_code == 200
    await api.delete(second["id"])
    await assert_nothing_left(stack)


async def test_a_name_given_again_never_speaks_with_the_old_clip(api, ann, bob):
    for _ in range(3):
        old = await api.add(ann, "guest")
        with_old = (await api.say("guest")).content
        await api.delete(old["id"])
        new = await api.add(bob, "guest")
        assert (await api.say("guest")).content != with_old
        await api.delete(new["id"])


async def test_an_owner_has_a_limited_number_of_voices(settings, engine, ann):
    settings = msgspec.structs.replace(settings, voices=msgspec.structs.replace(settings.voices, max_per_key=2))
    async with running_stack(settings, engine) as stack, stack.client() as client:
        api = Api(client)
        await api.add(ann, "one")
        await api.add(ann, "two")
        assert error_of(await api.upload(ann, "three")) == (400, "too_many_voices", None)
        assert (await num_rows(settings))["voices"] == 2
