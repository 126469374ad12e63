import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cli.child import Part, how_it_ended
from cli.supervisor import PartFailed, Supervisor
from tests.support.gepard import ROOT, environment, is_running, wait_until
from tests.support.waiting import eventually

# Says that it runs (a file named after its process), then lives until it is ended.
_LIVE = "import pathlib, os, time; pathlib.Path(str(os.getpid())).touch(); time.sleep(600)"
_DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {_LIVE}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def there(name: object) -> bool:
    return Path(str(name)).exists()


def content(name: str) -> str:
    return Path(name).read_text()


async def start(*parts: Part, timeout_s: float = 60) -> None:
    """Start parts, wait until they are ready, and stop them."""
    async with Supervisor(start_timeout_s=timeout_s) as supervisor:
        for each in parts:
            supervisor.start(each)
        await supervisor.until_ready()


def part(
    code: str = _LIVE,
    *,
    name: str = "part",
    stop_s: float = 20,
    ready: Callable[[int], Awaitable[bool]] | None = None,
) -> Part:
    async def runs(pid: int) -> bool:
        return there(pid)

    return Part(name=name, command=[sys.executable, "-S", "-c", code], ready=ready or runs, stop_s=stop_s)


def started(folder: Path) -> list[int]:
    """Process ids in the order of their start."""
    return [int(path.name) for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)]


async def test_a_part_runs_until_the_supervisor_exits(folder: Path):
    async with Supervisor() as supervisor:
        supervisor.start(part())
        await supervisor.until_ready()
        (pid,) = started(folder)
        assert is_running(pid)
    assert not is_running(pid)


async def test_parts_started_together_are_told_to_end_together(folder: Path):
    """Workers drain side by side: each of these waits for the other to be told."""
    code = (
        "import os, pathlib, signal, sys, time\n"
        "def end(*_):\n"
        "    pathlib.Path('told-' + sys.argv[1]).touch()\n"
        "    while not all(pathlib.Path('told-' + name).exists() for name in ('a', 'b')):\n"
        "        time.sleep(0.01)\n"
        "    pathlib.Path('ended-' + sys.argv[1]).touch()\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "pathlib.Path(str(os.getpid())).touch()\n"
        "time.sleep(600)"
    )
    parts = [replace(part(code), name=name) for name in "ab"]
    parts = [replace(each, command=[*each.command, each.name]) for each in parts]
    async with Supervisor() as supervisor:
        supervisor.start(*parts)
        await supervisor.until_ready()
    assert there("ended-a")
    assert there("ended-b")


async def test_parts_end_in_reverse_order_of_their_start(folder: Path):
    code = "import pathlib, signal, sys; {}; signal.pause()"
    says = "signal.signal(signal.SIGTERM, lambda *_: (open('order', 'a').write(sys.argv[1] + ' '), sys.exit()))"
    ready = "pathlib.Path(sys.argv[1]).touch()"

    async def runs(name: str) -> bool:
        return there(name)

    async with Supervisor() as supervisor:
        for name in ("first", "second", "third"):
            command = [sys.executable, "-S", "-c", code.format(f"{says}; {ready}"), name]
            supervisor.start(Part(name=name, command=command, ready=lambda _, name=name: runs(name), stop_s=20))
        await supervisor.until_ready()
    assert content("order") == "third second first "


async def test_a_killed_part_is_started_again(folder: Path):
    async with Supervisor() as supervisor:
        supervisor.start(part())
        await supervisor.until_ready()
        (first,) = started(folder)
        os.kill(first, signal.SIGKILL)
        _, second = await eventually(lambda: len(pids := started(folder)) == 2 and pids, within_s=20)
        assert is_running(second)
    assert not is_running(second)


async def test_a_part_killed_at_its_first_start_is_tried_again(folder: Path):
    await start(part(f"import os; os.path.exists('x') or (open('x', 'w'), os.kill(os.getpid(), 9)); {_LIVE}"))


async def test_a_part_killed_at_every_start_is_given_up():
    with pytest.raises(PartFailed, match="part was killed by SIGKILL before it was ready, 3 times"):
        await start(part("import os; os.kill(os.getpid(), 9)"))


async def test_a_part_that_ends_by_itself_at_its_first_start_is_given_up_at_once():
    with pytest.raises(PartFailed, match="part ended with status 3 before it was ready; its last lines above"):
        await start(part(name="other"), part("open('tries', 'a').write('x'); raise SystemExit(3)"))
    assert content("tries") == "x"


async def test_a_part_that_is_not_ready_in_time_is_given_up(folder: Path):
    async def never(pid: int) -> bool:
        await asyncio.sleep(0)
        return False

    with pytest.raises(PartFailed, match="part was not ready within 2 s"):
        await start(part(ready=never), timeout_s=2)
    assert not any(map(is_running, started(folder)))


async def test_a_restarted_part_that_is_not_ready_in_time_is_started_anew(folder: Path):
    async def all_but_the_second(pid: int) -> bool:
        await asyncio.sleep(0)
        return len(started(folder)) != 2 and pid in started(folder)

    async with Supervisor(start_timeout_s=2) as supervisor:
        supervisor.start(part(ready=all_but_the_second))
        await supervisor.until_ready()
        os.kill(started(folder)[0], signal.SIGKILL)
        _, second, _ = await eventually(lambda: len(pids := started(folder)) == 3 and pids, within_s=30)
        assert not is_running(second)


async def test_a_part_that_is_being_stopped_when_the_supervisor_exits_is_stopped_all_the_same(folder: Path):
    """Its restart was not ready in time, and it does not end by itself either."""

    async def only_the_first(pid: int) -> bool:
        await asyncio.sleep(0)
        return pid in started(folder)[:1]

    async with Supervisor(start_timeout_s=2) as supervisor:
        supervisor.start(part(_DEAF, stop_s=30, ready=only_the_first))
        await supervisor.until_ready()
        os.kill(started(folder)[0], signal.SIGKILL)
        _, second = await eventually(lambda: len(pids := started(folder)) == 2 and pids, within_s=30)
        await asyncio.sleep(3)  # behind the time for its start, within that for its end
        assert is_running(second)
        supervisor.hurry()
    assert not is_running(second)


async def test_a_program_that_is_missing_is_said_so():
    with pytest.raises(PartFailed, match=r"part cannot be started: .*No such file"):
        await start(Part(name="part", command=["./missing"], ready=part().ready, stop_s=1))


async def test_a_part_that_does_not_end_is_killed_after_its_time(folder: Path):
    async with Supervisor() as supervisor:
        supervisor.start(part(_DEAF, stop_s=0.2))
        await supervisor.until_ready()
    assert not is_running(started(folder)[0])


async def test_in_a_hurry_a_part_gets_no_more_than_a_moment(folder: Path):
    async with Supervisor() as supervisor:
        supervisor.start(part(_DEAF, stop_s=100))
        await supervisor.until_ready()
        began = time.monotonic()
        asyncio.get_running_loop().call_later(0.1, supervisor.hurry)
    assert not is_running(started(folder)[0])
    assert time.monotonic() - began < 20


async def test_stopping_does_not_wait_for_a_restart(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("cli.supervisor._FIRST_BACKOFF_S", 100.0)
    async with Supervisor() as supervisor:
        supervisor.start(part())
        await supervisor.until_ready()
        os.kill(started(folder)[0], signal.SIGKILL)
        await eventually(lambda: not is_running(started(folder)[0]), within_s=20)
        began = time.monotonic()
    assert time.monotonic() - began < 20
    assert len(started(folder)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a process to its parent")
def test_a_child_whose_parent_died_first_does_not_start():
    """The signal at the parent's death is only asked for after the fork."""
    code = """
import os, signal, time
from cli.child import _tied_to_parent
parent, tie = os.getpid(), _tied_to_parent(signal.SIGKILL)
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.01)
    tie()
    print("survived", flush=True)
"""
    # The output is closed when both have ended.
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout + done.stderr == ""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a process to its parent")
def test_a_part_ends_when_its_supervisor_is_killed(folder: Path):
    code = f"""
import asyncio, sys
from cli.child import Part, spawn
async def main():
    process = await spawn(Part(name="part", command=[sys.executable, "-c", {_DEAF!r}], ready=None, stop_s=1))
    await process.wait()
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", code], env=environment()) as parent:
        (pid,) = wait_until(lambda: started(folder), within_s=20, what="a part")
        parent.kill()
    wait_until(lambda: not is_running(pid), within_s=5, what="the end of the part")


def test_where_the_kernel_does_not_tie_it_a_process_ends_with_its_parent():
    code = """
import os, time
from cli.parent import end_with_parent
parent = os.getpid()
if os.fork() == 0:
    end_with_parent(parent)
    time.sleep(600)
"""
    # The output is closed when both have ended.
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=True)


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "ended with status 0"), (1, "ended with status 1"), (-9, "was killed by SIGKILL"), (-34, "was killed by")],
)
def test_an_exit_status_is_said_in_words(status: int, words: str):
    assert how_it_ended(status).startswith(words)
