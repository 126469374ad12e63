import asyncio
import fcntl
from pathlib import Path

import pytest
from redis.asyncio import Redis

from cli.data_folder import make_folder, open_lock
from cli.supervisor import Supervisor
from cli.valkey import embedded_valkey
from shared.errors import SettingsError


@pytest.mark.parametrize("name", ["plain", "a b?c#d%20", "long-" * 40], ids=["plain", "to be quoted", "long path"])
async def test_it_keeps_its_data_in_the_folder(name: str, tmp_path: Path):
    """A path too long for a Unix socket, or with signs of a URL in it, works as any other."""
    for _ in ("first", "second"):
        async with embedded_valkey(tmp_path / name) as valkey, Supervisor() as supervisor:
            supervisor.start(valkey.part())
            await supervisor.until_ready()
            async with Redis.from_url(valkey.url) as redis:
                count = await redis.incr("starts")
    assert count == 2
    assert not valkey.socket.exists()


async def test_it_waits_for_the_end_of_the_one_before(tmp_path: Path):
    """The lock is Valkey's own: it is free when that has ended, not when its `gepard serve` has."""
    folder = tmp_path / "valkey"
    make_folder(folder)
    before = open_lock(folder)
    fcntl.flock(before, fcntl.LOCK_EX)
    asyncio.get_running_loop().call_later(0.3, before.close)
    async with embedded_valkey(tmp_path):
        assert before.closed


async def test_one_that_does_not_end_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("cli.valkey._TAKE_OVER_S", 0.2)
    folder = tmp_path / "valkey"
    make_folder(folder)
    with open_lock(folder) as before:
        fcntl.flock(before, fcntl.LOCK_EX)
        with pytest.raises(SettingsError, match=f"a Valkey of an earlier run still uses {folder}"):
            async with embedded_valkey(tmp_path):
                pass


async def test_one_that_was_left_behind_is_ended(tmp_path: Path):
    """Where the system cannot tie it to its parent, the next start tells it to end."""
    async with embedded_valkey(tmp_path) as left_behind:
        part = left_behind.part()
        process = await asyncio.create_subprocess_exec(*part.command, pass_fds=part.pass_fds)
        while not await part.ready(process.pid):
            await asyncio.sleep(0.02)
    async with embedded_valkey(tmp_path):
        assert await asyncio.wait_for(process.wait(), 20) == 0
