"""uvicorn, stopped in two steps: first clients are sent elsewhere, then the door is closed."""

import time
from types import FrameType

import uvicorn

from gateway.drain import Drain


class DrainingServer(uvicorn.Server):
    """On the first signal it serves on for `delay_s` while the application says that it is not ready.

    Then it closes its sockets and lets running replies end, as uvicorn does. A second signal skips the wait.
    """

    def __init__(self, config: uvicorn.Config, drain: Drain, *, delay_s: float) -> None:
        super().__init__(config)
        self._drain = drain
        self._delay_s = delay_s
        self._close_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop, or go on with it."""
        if self._close_at is None and self._delay_s > 0:
            self._drain.begun = True
            self._close_at = time.monotonic() + self._delay_s
            return
        self._drain.begun = True
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Whether to close now; asked every 0.1 s."""
        ends = await super().on_tick(counter)
        if self._close_at is not None and time.monotonic() >= self._close_at:
            self.should_exit = True
        return ends or self.should_exit
