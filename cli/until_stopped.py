"""A command that runs parts until it is told to stop."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine

from cli.supervisor import Supervisor
from shared.telemetry import get_logger

log = get_logger()


async def until_stopped(supervisor: Supervisor, work: Coroutine[None, None, None]) -> None:
    """Run `work`, which keeps `supervisor` open, until SIGINT, SIGTERM or SIGHUP; a second one hurries the parts.

    Raises what `work` raises.
    """
    stop = asyncio.Event()

    def end() -> None:
        if stop.is_set():
            supervisor.hurry()
        stop.set()

    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # nohup sets SIGHUP aside.
        if signum != signal.SIGHUP or signal.getsignal(signum) != signal.SIG_IGN:
            loop.add_signal_handler(signum, end)
    serving = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            log.info("stopping", message="Stopping; running replies may finish. Ctrl-C again ends them now.")
    finally:
        stopping.cancel()
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
    log.info("stopped", message="Stopped.")
