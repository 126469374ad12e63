"""What models make of a voice: pending, ready or failed with a reason; made again when it was lost."""

import asyncio

import pytest
from msgspec.structs import replace

from shared.errors import EngineError
from tests.support.engines import ToneEngine, engine_info
from tests.support.stack import running_stack
from tests.support.voices import Api, error_of
from tests.support.waiting import eventually


async def test_a_request_waits_for_a_pending_voice(stack, api, ann):
    held = asyncio.Event()
    stack.engine.profile_step = lambda _: held.wait()
    voice = await api.add(ann)
    assert voice["status"] == "pending"
    speaking = [asyncio.create_task(api.say("ann")) for _ in range(3)]
    await eventually(lambda: stack.engine.profiled)
    await asyncio.sleep(0.2)
    assert not any(task.done() for task in speaking)
    held.set()
    assert {(await task).status_code for task in speaking} == {200}
    assert len(stack.engine.profiled) == 1


async def test_a_request_does_not_wait_for_ever(settings, engine, ann):
    engine.profile_step = lambda _: asyncio.Event().wait()
    settings = replace(settings, voices=replace(settings.voices, profile_timeout_s=0.5))
    async with running_stack(settings, engine) as stack, stack.client() as client:
        api = Api(client)
        await api.add(ann)
        late = await api.say("ann")
        assert error_of(late) == (503, "voice_not_ready", None)
        assert late.headers["retry-after"]


async def test_a_failed_voice_says_why(stack, api, ann):
    def refuse(_):
        raise EngineError("the clip holds too little voiced speech")

    stack.engine.profile_step = refuse
    voice = await api.settled((await api.add(ann))["id"])
    assert voice["status"] == "failed"
    assert voice["models"] == [
        {"model": "tone", "status": "failed", "kind": None, "reason": "the clip holds too little voiced speech"}
    ]
    refused = await api.say("ann")
    assert error_of(refused) == (400, "clip_unusable", "voice")
    assert "too little voiced speech" in refused.json()["error"]["message"]
    assert len(stack.engine.profiled) == 1


async def test_a_new_revision_of_the_model_tries_again(settings, ann):
    def refuse(_):
        raise EngineError("not yet")

    engine = ToneEngine(engine_info(can_match=True), profile_step=refuse, chunk_chars=50)
    newer = ToneEngine(replace(engine_info(can_match=True), compressor_revision="better"), chunk_chars=50)
    async with running_stack(settings, engine) as stack, stack.client() as client:
        api = Api(client)
        voice = await api.settled((await api.add(ann))["id"])
        await stack.workers[0].stop()
        await stack.start_worker(newer)

        async def newer_is_seen() -> bool:
            found = await api.get(voice["id"])
            return bool(found["models"]) and found["status"] == "pending"

        await eventually(newer_is_seen)
        assert (await api.say("ann")).status_code == 200
        assert [voice["status"] for voice in await api.own()] == ["ready"]


async def test_a_flushed_redis_loses_no_voice(stack, api, ann):
    voice = await api.add(ann)
    before = (await api.say("ann")).content
    await stack.redis.flushall()
    await stack.ready()
    assert (await api.say("ann")).content == before
    assert (await api.settled(voice["id"]))["status"] == "ready"


async def test_a_restart_of_every_part_loses_no_voice(settings, ann):
    async with running_stack(settings, ToneEngine(engine_info(can_match=True))) as stack, stack.client() as client:
        await Api(client).add(ann)
        before = (await Api(client).say("ann")).content
    async with running_stack(settings, ToneEngine(engine_info(can_match=True))) as stack, stack.client() as client:
        await stack.redis.flushall()
        await stack.ready()
        assert [voice["name"] for voice in await Api(client).own()] == ["ann"]
        assert (await Api(client).say("ann")).content == before


async def test_a_worker_killed_in_an_extraction_is_replaced(stack, api, ann):
    stack.engine.profile_step = lambda _: asyncio.Event().wait()
    await api.add(ann)
    await eventually(lambda: stack.engine.profiled)
    second = ToneEngine(engine_info(can_match=True))
    await stack.start_worker(second)
    await stack.workers[0].kill()
    assert (await api.say("ann")).status_code == 200
    assert len(second.profiled) == 1


async def test_a_voice_made_while_no_worker_lives_is_made_ready_by_its_first_use(settings, ann, engine):
    async with running_stack(settings) as stack, stack.client() as client:
        api = Api(client)
        voice = await api.add(ann)
        assert (voice["status"], voice["models"]) == ("pending", [])
        await stack.start_worker(engine)
        await stack.ready()
        assert (await api.say(voice["id"])).status_code == 200
        assert (await api.get(voice["id"]))["status"] == "ready"


@pytest.mark.parametrize("broken", ["stop", "kill"])
async def test_an_upload_is_kept_when_the_worker_goes(stack, api, ann, broken):
    await getattr(stack.workers[0], broken)()
    assert (await api.upload(ann)).status_code == 200
    assert len(await api.own()) == 1
