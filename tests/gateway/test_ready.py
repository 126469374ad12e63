"""/ready says whether speech would be made."""

import asyncio

from tests.support.engines import ToneEngine
from tests.support.stack import running_stack
from tests.support.waiting import eventually


async def status(client, path="/ready") -> int:
    return (await client.get(path)).status_code


async def test_not_ready_without_a_worker_though_alive(settings):
    async with running_stack(settings) as stack, stack.client() as client:
        assert (await status(client), await status(client, "/health")) == (503, 200)
        assert (await client.get("/v1/models")).json()["data"] == []


async def test_not_ready_until_the_engine_has_started(settings):
    started = asyncio.Event()

    class SlowEngine(ToneEngine):
        async def start(self):
            await started.wait()

    async with running_stack(settings) as stack, stack.client() as client:
        starting = asyncio.create_task(stack.start_worker(SlowEngine()))
        await asyncio.sleep(0.6)
        assert await status(client) == 503
        started.set()
        await starting
        await eventually(lambda: _is(client, 200), within_s=2)
        speech = await client.post("/v1/audio/speech", json={"model": "tts-1", "input": "a", "voice": "low"})
        assert speech.status_code == 200


async def test_not_ready_soon_after_the_worker_is_gone(settings):
    async with running_stack(settings, ToneEngine()) as stack, stack.client() as client:
        assert await status(client) == 200
        await stack.workers[0].kill()
        await eventually(lambda: _is(client, 503), within_s=2)


async def _is(client, wanted) -> bool:
    return await status(client) == wanted
