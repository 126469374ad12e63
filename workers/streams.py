"""The streams a worker is serving: one task each, from hand-over to the last event."""

import asyncio
from collections.abc import Coroutine


class StreamSupervisor:
    """Owns the tasks of running streams. arq hands a job over and forgets it; this holds it."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def active(self) -> int:
        """Streams being served."""
        return len(self._tasks)

    def begin(self, attempt_id: str, work: Coroutine[None, None, None]) -> None:
        """Start to serve an attempt. It is registered before its first step, so that a cancel finds it.

        `work` answers for its own errors and raises only CancelledError.
        """
        task = asyncio.create_task(work, name=f"stream-{attempt_id}")
        self._tasks[attempt_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(attempt_id, None))

    def cancel(self, attempt_id: str) -> bool:
        """Stop a stream that is not stopping yet; False if it is not here.

        Gateways may say it twice: a second cancel would break into the clean-up of the first.
        """
        task = self._tasks.get(attempt_id)
        return task is not None and (task.cancelling() > 0 or task.cancel())

    async def finished(self, attempt_id: str) -> None:
        """Wait for the end of a stream, however it ends."""
        task = self._tasks.get(attempt_id)
        if task is not None:
            await asyncio.wait([task])

    def cancel_all(self) -> None:
        """Stop every stream that is not stopping yet."""
        for attempt_id in self._tasks:
            self.cancel(attempt_id)
