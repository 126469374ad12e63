"""Keeps child processes running: restarted when they die, stopped in reverse order of their start."""

import asyncio
import time
from dataclasses import dataclass
from typing import NoReturn, Self

from cli.child import Part, how_it_ended, spawn, stop
from shared.errors import GepardError
from shared.telemetry import get_logger

_START_TIMEOUT_S = 120.0
_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 10.0
# A part that ran this long was healthy: its next death starts with a short wait again.
_HEALTHY_S = 30.0
_MAX_FIRST_STARTS = 3
_POLL_S = 0.05

log = get_logger()


class PartFailed(GepardError):
    """A part cannot be started."""


@dataclass(frozen=True, slots=True)
class _Watch:
    """A part under supervision; `ready` is set once it has been ready for the first time."""

    task: asyncio.Task[NoReturn]
    ready: asyncio.Event


class Supervisor:
    """Owns the processes of its parts; use as an async context manager."""

    def __init__(self, *, start_timeout_s: float = _START_TIMEOUT_S) -> None:
        self._start_timeout_s = start_timeout_s
        self._groups: list[list[_Watch]] = []
        self._hurry = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop everything, last started first; what was started together is stopped together."""
        for group in reversed(self._groups):
            for watch in group:
                watch.task.cancel()
            await asyncio.wait([watch.task for watch in group])

    def hurry(self) -> None:
        """From now on parts are killed when they do not end at once."""
        self._hurry.set()

    def start(self, *parts: Part) -> None:
        """Start parts and keep them running until this supervisor exits."""
        group = []
        for part in parts:
            ready = asyncio.Event()
            task = asyncio.create_task(self._keep_running(part, ready), name=part.name)
            group.append(_Watch(task, ready))
        self._groups.append(group)

    @property
    def _watches(self) -> list[_Watch]:
        return [watch for group in self._groups for watch in group]

    async def until_ready(self) -> None:
        """Wait until every part has been ready once. Raises PartFailed for one that cannot be started."""
        for watch in self._watches:
            becoming_ready = asyncio.create_task(watch.ready.wait())
            failing = asyncio.create_task(self.until_failure())
            try:
                await asyncio.wait([becoming_ready, failing], return_when=asyncio.FIRST_COMPLETED)
                if failing.done():
                    failing.result()
            finally:
                becoming_ready.cancel()
                failing.cancel()
                await asyncio.wait([becoming_ready, failing])

    async def until_failure(self) -> None:
        """Wait for a part that is given up. Always ends by raising, PartFailed as a rule."""
        done, _ = await asyncio.wait([watch.task for watch in self._watches], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def _keep_running(self, part: Part, ready: asyncio.Event) -> NoReturn:
        backoff_s, restarts = _FIRST_BACKOFF_S, 0
        while True:
            began = time.monotonic()
            how = await self._run_once(part, ready, restarts)
            restarts += 1
            if not ready.is_set() and restarts >= _MAX_FIRST_STARTS:
                raise PartFailed(f"{part.name} {how} before it was ready, {restarts} times; {part.log_hint}")
            if time.monotonic() - began > _HEALTHY_S:
                backoff_s = _FIRST_BACKOFF_S
            log.error(
                "part_died",
                part=part.name,
                message=f"{part.name} {how}. It starts again in {backoff_s:g} s (restart {restarts}).",
                restarts=restarts,
                restart_in_s=backoff_s,
            )
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, _LONGEST_BACKOFF_S)

    async def _run_once(self, part: Part, ready: asyncio.Event, restarts: int) -> str:
        """Run the part until it ends, and say how it ended. Raises PartFailed when trying again is no use."""
        try:
            process = await spawn(part)
        except OSError as error:
            raise PartFailed(f"{part.name} cannot be started: {error}") from error
        log.info("part_starting", part=part.name, pid=process.pid, message=f"Starting {part.name} ...")
        ended = asyncio.create_task(process.wait())
        becoming_ready = asyncio.create_task(_until_ready(part, process.pid))
        try:
            await asyncio.wait(
                [ended, becoming_ready], timeout=self._start_timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not ended.done() and not becoming_ready.done():
                how = f"was not ready within {self._start_timeout_s:g} s"
                if not ready.is_set():
                    raise PartFailed(f"{part.name} {how}; {part.log_hint}")
                return how
            if not ended.done():
                becoming_ready.result()
                again = " again" if restarts else ""
                log.info(
                    "part_ready",
                    part=part.name,
                    pid=process.pid,
                    message=f"{part.name} is ready{again}.",
                    restarts=restarts,
                )
                ready.set()
            status = await ended
            if status >= 0 and not ready.is_set():
                # It ended by itself at its first start: what it lacks will not come by trying again.
                raise PartFailed(f"{part.name} {how_it_ended(status)} before it was ready; {part.log_hint}")
            return how_it_ended(status)
        finally:
            becoming_ready.cancel()
            stopping = asyncio.create_task(stop(process, part, hurry=self._hurry))
            try:
                await asyncio.shield(stopping)
            finally:
                # Also when the supervisor exits meanwhile: no part is left behind, and each ends in its turn.
                if not await stopping:
                    log.warning("part_killed", part=part.name, message=f"{part.name} did not end and was killed.")
                await asyncio.wait([ended, becoming_ready])


async def _until_ready(part: Part, pid: int) -> None:
    while not await part.ready(pid):
        await asyncio.sleep(_POLL_S)
