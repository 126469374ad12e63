"""One child process: started so that it cannot outlive this one, and stopped."""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

_PR_SET_PDEATHSIG = 1
_HURRIED_STOP_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What to run. `ready` is asked with the process id until it says yes.

    `stop_s`: the time it has to end by itself. `death_signal`: what the kernel sends it when this process is
    gone (Linux). `log_hint`: where to read why it failed.
    """

    name: str
    command: Sequence[str]
    ready: Callable[[int], Awaitable[bool]]
    stop_s: float
    death_signal: signal.Signals = signal.SIGKILL
    pass_fds: Sequence[int] = ()
    env: Mapping[str, str] | None = None
    log_hint: str = "its last lines above say why"


async def spawn(part: Part) -> asyncio.subprocess.Process:
    """Start the part's process. Raises OSError when the program cannot be run."""
    return await asyncio.create_subprocess_exec(
        *part.command,
        stdin=asyncio.subprocess.DEVNULL,
        # The standard output of `gepard serve` is its banner alone.
        stdout=sys.stderr.fileno(),
        pass_fds=tuple(part.pass_fds),
        env={**os.environ, **(part.env or {})},
        # Ctrl-C reaches only this process, which stops the parts in order.
        start_new_session=True,
        preexec_fn=_tied_to_parent(part.death_signal) if sys.platform == "linux" else None,
    )


async def stop(process: asyncio.subprocess.Process, part: Part, *, hurry: asyncio.Event) -> bool:
    """End the process: SIGTERM, then SIGKILL after its time, or soon after `hurry` is set.

    Returns whether it ended by itself.
    """
    if process.returncode is not None:
        return True
    process.terminate()
    ended = asyncio.create_task(process.wait())
    hurried = asyncio.create_task(hurry.wait())
    try:
        await asyncio.wait([ended, hurried], timeout=part.stop_s, return_when=asyncio.FIRST_COMPLETED)
        if hurried.done():
            await asyncio.wait([ended], timeout=_HURRIED_STOP_S)
        by_itself = ended.done()
        if not by_itself:
            process.kill()
        await ended
        return by_itself
    finally:
        hurried.cancel()


def how_it_ended(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def _tied_to_parent(death_signal: signal.Signals) -> Callable[[], None]:
    """To run in the child before exec: the kernel ends it when its parent is gone, even by kill -9."""
    parent = os.getpid()

    def tie() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, death_signal)
        # The parent may have died before the call above: then no signal will ever come.
        if os.getppid() != parent:
            os._exit(1)

    return tie
