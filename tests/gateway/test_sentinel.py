"""Sentinel names the master: a gateway and a worker speak before and after a failover."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cli.redis_check import require_redis
from tests.conftest import tone_settings
from tests.support.engines import ToneEngine
from tests.support.sentinel import Sentinels, running_sentinels
from tests.support.stack import Stack, running_stack
from tests.support.waiting import eventually


@pytest.fixture
def sentinels(tmp_path: Path) -> Iterator[Sentinels]:
    with running_sentinels(tmp_path) as running:
        yield running


@pytest.fixture
async def stack(sentinels: Sentinels, tmp_path: Path) -> AsyncIterator[Stack]:
    await require_redis(sentinels.url)
    async with running_stack(tone_settings(sentinels.url, tmp_path / "data"), ToneEngine()) as running:
        yield running


async def speaks(stack: Stack) -> bool:
    async with stack.client() as client:
        body = {"model": "tone", "input": "Hello.", "voice": "low", "response_format": "pcm"}
        return (await client.post("/v1/audio/speech", json=body)).status_code == 200


async def test_speech_goes_on_after_a_failover(stack: Stack, sentinels: Sentinels):
    assert await speaks(stack)
    before = sentinels.master_port()
    sentinels.fail_over()
    assert sentinels.master_port() != before

    async def speaks_again() -> bool:
        return await speaks(stack)

    await eventually(speaks_again, within_s=30)
