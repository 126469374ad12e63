"""A voice is its key's own; the operator may share it."""

import pytest
from msgspec.structs import replace

from shared.database import Database, database_url
from tests.gateway.voices.test_consents import CONSENTS, record
from tests.support.databases import make_key
from tests.support.stack import running_stack
from tests.support.voices import Api, error_of
from voices.repository import VoiceRepository


@pytest.fixture
async def two(settings, engine):
    """Two keys' clients of one gateway."""
    (_, first), (_, second) = await make_key(settings, "first"), await make_key(settings, "second")
    async with (
        running_stack(settings, engine) as stack,
        stack.client(first) as one,
        stack.client(second) as other,
    ):
        yield Api(one), Api(other)


async def publish(settings, voice_id: str) -> None:
    async with Database(database_url(settings)) as database, database.session() as session:
        assert await VoiceRepository(session).publish(voice_id, is_public=True)


async def test_another_key_finds_no_trace_of_a_voice(two, ann):
    one, other = two
    voice = await one.add(ann, "ann")
    url = f"/v1/voices/{voice['id']}"
    assert await other.own() == []
    for response in (
        await other.client.get(url),
        await other.client.get(f"{url}/clip"),
        await other.client.get(f"{url}/preview"),
        await other.client.post(url, json={"name": "mine"}),
        await other.client.delete(url),
    ):
        assert error_of(response) == (404, "not_found", None)
    assert error_of(await other.say("ann")) == (400, "voice_not_found", "voice")
    assert error_of(await other.say({"id": voice["id"]})) == (400, "voice_not_found", "voice")
    assert (await one.say("ann")).status_code == 200
    # The name is free for others.
    assert (await other.upload(ann, "ann")).status_code == 200


async def test_a_public_voice_can_be_used_by_all_and_changed_by_its_owner_only(two, settings, ann, bob):
    one, other = two
    voice = await one.add(ann, "ann")
    await publish(settings, voice["id"])
    url = f"/v1/voices/{voice['id']}"
    assert [found["public"] for found in await other.own()] == [True]
    assert (await other.say("ann")).content == (await one.say("ann")).content
    assert (await other.client.get(f"{url}/preview")).status_code == 200
    assert error_of(await other.client.get(f"{url}/clip")) == (404, "not_found", None)
    assert error_of(await other.client.delete(url)) == (404, "not_found", None)
    assert error_of(await other.client.post(url, json={"name": "mine"})) == (404, "not_found", None)
    # One's own voice of that name comes first.
    await other.add(bob, "ann")
    assert (await other.say("ann")).content != (await one.say("ann")).content


async def test_consents_are_as_private_as_voices(two, ann, bob):
    one, other = two
    consent = (await record(one.client, ann)).json()
    url = f"{CONSENTS}/{consent['id']}"
    assert (await other.client.get(CONSENTS)).json()["data"] == []
    assert error_of(await other.client.get(url)) == (404, "not_found", None)
    assert error_of(await other.client.post(url, json={"name": "x"})) == (404, "not_found", None)
    assert error_of(await other.client.delete(url)) == (404, "not_found", None)
    assert (await other.add(bob, consent=consent["id"]))["consent"] is None


async def test_a_list_that_is_open_to_everyone_has_public_voices_only(settings, engine, ann):
    settings = replace(settings, auth=replace(settings.auth, open_lists=True))
    _, key = await make_key(settings, "first")
    async with running_stack(settings, engine) as stack, stack.client(key) as one, stack.client() as nobody:
        voice = await Api(one).add(ann, "ann")
        assert await Api(nobody).own() == []
        await publish(settings, voice["id"])
        assert [found["id"] for found in await Api(nobody).own()] == [voice["id"]]
        assert (await Api(nobody).upload(ann)).status_code == 401
        assert (await Api(nobody).delete(voice["id"])).status_code == 401


async def test_the_first_key_does_not_inherit_what_was_made_without_keys(settings, engine, ann):
    async with running_stack(settings, engine) as stack, stack.client() as client:
        await Api(client).add(ann, "ann")
    _, key = await make_key(settings, "first")
    async with running_stack(settings, engine) as stack, stack.client(key) as client:
        assert await Api(client).own() == []
