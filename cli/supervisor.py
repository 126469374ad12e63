"""Keeps child processes running: started in order, restarted when they die, stopped in reverse order."""

import asyncio
import ctypes
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from shared.errors import GepardError
from shared.telemetry import get_logger

_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 10.0
# A part that ran this long was healthy: its next death starts with a short wait again.
_HEALTHY_S = 30.0
_POLL_S = 0.05
_PR_SET_PDEATHSIG = 1

log = get_logger()


class PartFailed(GepardError):
    """A part did not become ready in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A child process. `ready` is asked until it says yes; `stop_s` is the time it has to end by itself."""

    name: str
    command: Sequence[str]
    ready: Callable[[], Awaitable[bool]]
    stop_s: float
    pass_fds: Sequence[int] = ()
    env: Mapping[str, str] | None = None


class Supervisor:
    """Owns the processes of its parts; use as an async context manager."""

    def __init__(self) -> None:
        self._watchers: list[asyncio.Task[None]] = []
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop everything, last started first."""
        for watcher in reversed(self._watchers):
            watcher.cancel()
            await asyncio.wait([watcher])

    async def start(self, part: Part, *, timeout_s: float) -> None:
        """Start a part and wait until it is ready. Raises PartFailed when it is not in time."""
        self._watchers.append(asyncio.create_task(self._keep_running(part), name=part.name))
        try:
            async with asyncio.timeout(timeout_s):
                while not await part.ready():
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            raise PartFailed(f"{part.name} was not ready within {timeout_s:.0f} s") from error
        log.info("part_ready", part=part.name)

    def pid(self, name: str) -> int | None:
        """Process id of a running part."""
        process = self._running.get(name)
        return None if process is None else process.pid

    async def _keep_running(self, part: Part) -> None:
        backoff_s = _FIRST_BACKOFF_S
        while True:
            began = time.monotonic()
            status = await self._run_once(part)
            if time.monotonic() - began > _HEALTHY_S:
                backoff_s = _FIRST_BACKOFF_S
            log.error("part_died", part=part.name, status=status, restart_in_s=backoff_s)
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, _LONGEST_BACKOFF_S)
            log.info("part_restarting", part=part.name)

    async def _run_once(self, part: Part) -> int:
        process = await asyncio.create_subprocess_exec(
            *part.command,
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=tuple(part.pass_fds),
            env={**os.environ, **(part.env or {})},
            # Ctrl-C reaches only this process, which stops the parts in order.
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
        self._running[part.name] = process
        try:
            return await process.wait()
        except asyncio.CancelledError:
            await _stop(process, part)
            raise
        finally:
            self._running.pop(part.name, None)


async def _stop(process: asyncio.subprocess.Process, part: Part) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), part.stop_s)
    except TimeoutError:
        log.warning("part_killed", part=part.name)
        process.kill()
        await process.wait()


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """Runs in the child before exec: the kernel ends it when this process is gone, even by kill -9."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
