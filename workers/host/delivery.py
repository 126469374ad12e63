"""The thread between the step loop and the sockets: waits for the device, and packs what each worker gets."""

import queue
import threading
from collections.abc import Callable, Mapping
from typing import assert_never

from workers.host import wire
from workers.host.loop import EndNews, HostStream, News, Owner, RefusedNews, SoundNews

_MAX_POSTED = 256
"""Messages the event loop has not taken yet; beyond them this thread waits, and with it in time the loop."""


Post = Callable[[Mapping[Owner, bytearray], list[HostStream]], None]


class Delivery:
    """An outbox of the loop."""

    def __init__(self) -> None:
        self._news: queue.SimpleQueue[News | None] = queue.SimpleQueue()
        self._room = threading.BoundedSemaphore(_MAX_POSTED)
        self._thread: threading.Thread | None = None

    def start(self, post: Post) -> None:
        """Start the thread, which posts what each owner gets, and the streams that end.

        Whoever takes what was posted says so by `taken`.
        """
        self._thread = threading.Thread(target=self._run, args=(post,), name="delivery", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the news it has."""
        if self._thread is not None:
            self._news.put(None)
            self._thread.join()

    def put(self, news: News) -> None:
        """Any thread. Bounded by what is under way in the codec, and by the streams there are."""
        self._news.put(news)

    def taken(self) -> None:
        """What was posted has been taken."""
        self._room.release()

    def _run(self, post: Post) -> None:
        while (news := self._news.get()) is not None:
            ends: list[HostStream] = []
            match news:
                case SoundNews():
                    data = _sound(news)
                case EndNews(stream, reason):
                    data = {stream.owner: wire.packed(wire.Ended(stream.number, reason))}
                    ends.append(stream)
                case RefusedNews(stream, message):
                    data = {stream.owner: wire.packed(wire.Refused(stream.number, message))}
                    ends.append(stream)
                case _:
                    assert_never(news)
            self._room.acquire()
            post(data, ends)


def _sound(news: SoundNews) -> dict[Owner, bytearray]:
    """A message for each owner: of the step's rows, its own lie together."""
    pcm, codes = news.pending.read()
    data: dict[Owner, bytearray] = {}
    start = 0
    for end in range(1, len(news.streams) + 1):
        owner = news.streams[start].owner
        if end < len(news.streams) and news.streams[end].owner is owner:
            continue
        message = wire.Sound(
            numbers=[stream.number for stream in news.streams[start:end]],
            counts=news.counts[start:end],
            num_frames=news.num_frames,
            pcm=pcm[start:end].data.cast("B"),
            codes=codes[start:end].data.cast("B"),
        )
        data[owner] = wire.packed(message)
        start = end
    news.pending.release()
    return data
