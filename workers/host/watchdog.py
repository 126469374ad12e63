"""A step that never ends is noticed, whatever it hangs in."""

import faulthandler
import threading
import time
from collections.abc import Callable

from workers.host.loop import StepLoop

_LOOKS = 8
"""Times that it looks in the longest that a pass may take."""


class Watchdog:
    """Calls `on_hang`, once and in a thread of its own, when streams run and no pass has begun for `timeout_s`."""

    def __init__(self, steps: StepLoop, *, timeout_s: float, on_hang: Callable[[Exception], None]) -> None:
        self._steps = steps
        self._timeout_s = timeout_s
        self._on_hang = on_hang
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Start to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._watch()
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _watch(self) -> None:
        passes, since = self._steps.num_passes, time.monotonic()
        while not self._stopped.wait(self._timeout_s / _LOOKS):
            now = time.monotonic()
            if self._steps.num_passes != passes or not self._steps.num_streams:
                passes, since = self._steps.num_passes, now
            elif now - since > self._timeout_s:
                self._on_hang(TimeoutError(f"no step for {now - since:.0f} s while streams run"))
                return
            # A call that hangs with the interpreter's lock stops this thread, too; this timer needs no lock. It
            # prints where each thread is, and ends the process with status 1.
            faulthandler.dump_traceback_later(2 * self._timeout_s, exit=True)
