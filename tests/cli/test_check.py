"""The health command of containers."""

import asyncio
import os
import re
import socket

from click.testing import CliRunner

from cli.main import main
from shared.broker.heartbeat import lives_here
from shared.contracts import WorkerId
from tests.support.engines import ToneEngine
from tests.support.workers import running_worker


def check(*arguments: object, **env: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["check", *map(str, arguments)], env=env)
    return done.exit_code, done.output


def test_a_gateway_that_answers_is_well(url: str):
    port = re.findall(r":(\d+)$", url)[0]
    assert check("gateway", "--port", port) == (0, "The gateway answers.\n")


def test_a_gateway_that_is_away_is_not():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        status, output = check("gateway", "--port", probe.getsockname()[1])
    assert status == 1
    assert "no gateway answers at 127.0.0.1:" in output


async def test_a_worker_that_beats_is_well(settings, redis_url: str):
    async with running_worker(ToneEngine(), settings):
        assert await asyncio.to_thread(check, "worker", "--redis-url", redis_url) == (0, "The worker beats.\n")
    status, output = await asyncio.to_thread(check, "worker", "--redis-url", redis_url)
    assert (status, "no worker of this machine beats" in output) == (1, True)


def test_without_redis_nothing_is_said_against_the_worker():
    status, output = check("worker", "--redis-url", "redis://127.0.0.1:1")
    assert status == 0
    assert "Redis does not answer" in output


def test_only_workers_of_this_machine_count():
    here, pid = socket.gethostname(), os.getpid()
    assert lives_here(WorkerId(f"{here}-{pid}-0a1b2c"))
    for other in (f"{here}-2-{pid}-0a1b2c", f"x{here}-{pid}-0a1b2c", f"{here}-{pid}", "elsewhere-1-0a1b2c"):
        assert not lives_here(WorkerId(other)), other
