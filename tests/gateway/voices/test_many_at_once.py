"""Many clients on one voice: no half-made voice, nothing left behind, and no server error."""

import asyncio

import httpx
from msgspec.structs import replace

from tests.support.stack import running_stack
from tests.support.voices import Api, assert_nothing_left, error_of, num_rows
from tests.support.waiting import eventually


async def test_sixteen_clients_upload_use_rename_and_delete_one_voice(stack, ann, bob):
    statuses: list[int] = []

    async def client_of(number: int) -> None:
        async with stack.client() as client:
            api = Api(client)
            for turn in range(3):
                made = await api.upload((ann, bob)[(number + turn) % 2], "ann")
                statuses.append(made.status_code)
                statuses.append((await api.say("ann")).status_code)
                for voice in await api.own():
                    renamed = await client.post(f"/v1/voices/{voice['id']}", json={"name": f"ann {number % 2}"})
                    statuses.append(renamed.status_code)
                    statuses.append((await api.say(voice["id"])).status_code)
                    statuses.append((await api.delete(voice["id"])).status_code)

    await asyncio.gather(*(client_of(number) for number in range(16)))
    assert set(statuses) <= {200, 400, 404}
    async with stack.client() as client:
        for voice in await Api(client).own():
            assert (await Api(client).say(voice["id"])).status_code == 200
            assert (await Api(client).delete(voice["id"])).status_code == 200
    await eventually(lambda: not stack.engine.running)
    await assert_nothing_left(stack)


async def test_of_many_uploads_under_one_name_one_wins(stack, ann):
    async def upload() -> int:
        async with stack.client() as client:
            return (await Api(client).upload(ann, "ann")).status_code

    statuses = await asyncio.gather(*(upload() for _ in range(8)))
    assert sorted(statuses) == [200] + 7 * [400]


async def test_uploads_beyond_the_bound_are_told_to_come_back(settings, engine, ann):
    settings = replace(settings, clips=replace(settings.clips, max_decoders=1, max_waiting=1))
    async with running_stack(settings, engine) as stack:

        async def upload(number: int) -> httpx.Response:
            async with stack.client() as client:
                return await Api(client).upload(ann, f"ann {number}")

        responses = await asyncio.gather(*(upload(number) for number in range(8)))
        refused = [response for response in responses if response.status_code != 200]
        assert 0 < len(refused) < 8
        for response in refused:
            assert error_of(response) == (503, "server_overloaded", None)
            assert response.headers["retry-after"]
        assert (await num_rows(settings))["voices"] == 8 - len(refused)


async def test_a_deletion_during_extraction_leaves_nothing(stack, api, ann):
    held = asyncio.Event()
    stack.engine.profile_step = lambda _: held.wait()
    voice = await api.add(ann)
    await eventually(lambda: stack.engine.profiled)
    speaking = asyncio.create_task(api.say(voice["id"]))
    assert (await api.delete(voice["id"])).status_code == 200
    held.set()
    assert (await speaking).status_code == 400
    await assert_nothing_left(stack)


async def test_a_running_reply_outlives_its_voice(stack, api, ann):
    voice = await api.add(ann)
    await api.settled(voice["id"])
    held = asyncio.Event()
    stack.engine.step = lambda *_: held.wait()
    speaking = asyncio.create_task(api.say(voice["id"]))
    await eventually(lambda: stack.engine.running)
    assert (await api.delete(voice["id"])).status_code == 200
    held.set()
    assert (await speaking).status_code == 200
    await assert_nothing_left(stack)
