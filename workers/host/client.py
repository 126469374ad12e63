"""A worker's end of the socket: one connection for all its streams, made anew when the host comes back."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import msgspec
import numpy as np

from shared.clip import MAX_CLIP_BYTES, Clip
from shared.contracts import EngineInfo, HostFigures
from shared.errors import EngineBroken, EngineError, EngineLost, GepardError
from shared.telemetry import get_logger
from workers.engines.base import Samples, SpeakerProfile
from workers.host import wire
from workers.host.frames import FrameReader
from workers.nanocodec.config import CODES_PER_FRAME, SAMPLES_PER_FRAME

_RETRY_S = 0.1
_SILENCE_S = 5.0
"""A host that has said nothing for so long, not even its figures, does not answer."""

_SETTLE_S = 0.25
"""Other workers of a host hear of its end a moment sooner or later: none of them shall take what this one hands back,
and lose it again."""

log = get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """Samples [1024 n] in -1..1 at 22,050 Hz of n frames, n >= 0, and their codes [n, 32], one byte each.

    `finished`: why nothing follows (`stop`, `limit`); None as long as something does.
    """

    samples: Samples
    codes: bytes
    num_frames: int
    finished: str | None


_Result = Spoken | wire.Profiled | Exception
"""What comes for a request; an exception is the last."""


class HostClient:
    """Speaks with the host at a path; belongs to one event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._transport: asyncio.Transport | None = None
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Queue[_Result]] = {}
        self._lost = asyncio.Event()
        self._greeted = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._info: EngineInfo | None = None
        self._changed = False
        self._stopping = False
        self._heard_at = 0.0
        self.figures: HostFigures | None = None
        """The host's last figures; None while it is gone."""

    @property
    def info(self) -> EngineInfo:
        """What the host serves, its capacity being the share of this worker. Raises EngineError before `start`."""
        if self._info is None:
            raise EngineError("the engine is not started")
        return self._info

    @property
    def is_available(self) -> bool:
        """Whether the host answers. Raises EngineBroken when it came back as another: this worker must end."""
        if self._changed:
            raise EngineBroken("the host came back with another model or capacity")
        return self.figures is not None

    async def start(self) -> None:
        """Connect; returns when the host is there and warm, which may take minutes."""
        self._keeping = asyncio.create_task(self._keep_connected())
        await self._greeted.wait()

    async def stop(self) -> None:
        """Disconnect; what still runs ends with EngineLost."""
        self._stopping = True
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        self._info = None

    async def speak(self, request: wire.Speak) -> AsyncGenerator[Spoken, None]:
        """Generate and decode one request; the last item says why it ended. `request.number` is chosen here.

        Closing or cancelling frees its place before the host's next step. Raises EngineLost when the host goes,
        EngineError when the request fails.
        """
        _check_bounds(request)
        await self._require()
        with self._asking() as (number, results):
            self._send(msgspec.structs.replace(request, number=number))
            is_over = False
            try:
                while not is_over:
                    result = await results.get()
                    is_over = isinstance(result, Exception) or (isinstance(result, Spoken) and bool(result.finished))
                    if isinstance(result, Exception):
                        raise await self._settled(result)
                    if isinstance(result, Spoken):
                        yield result
            finally:
                if not is_over:
                    self._send(wire.Cancel(number))

    async def profile(self, clip: Clip, *, max_s: float) -> SpeakerProfile:
        """Make a voice of at most `max_s` of a clip. Raises EngineLost, EngineError for a clip of no use."""
        data = Clip(samples=clip.samples[: int(max_s * clip.rate_hz)], rate_hz=clip.rate_hz).to_bytes()
        if len(data) > MAX_CLIP_BYTES:
            raise EngineError(f"a clip of {len(data)} bytes; at most {MAX_CLIP_BYTES} are taken")
        await self._require()
        with self._asking() as (number, results):
            self._send(wire.Profile(number, data))
            result = await results.get()
        if isinstance(result, Exception):
            raise await self._settled(result)
        if not isinstance(result, wire.Profiled):
            raise EngineError("the host answered with sound")
        return SpeakerProfile.from_bytes(result.profile)

    async def _require(self) -> None:
        if self._transport is None:
            raise await self._settled(EngineLost("the engine host is gone"))

    async def _settled(self, error: Exception) -> Exception:
        """The error of a request, when it may be told."""
        if isinstance(error, EngineLost) and not self._stopping:
            await asyncio.sleep(_SETTLE_S)
        return error

    @contextlib.contextmanager
    def _asking(self) -> Iterator[tuple[int, asyncio.Queue[_Result]]]:
        """A number for a request, and what comes for it. Bounded: a request has at most 2000 frames."""
        number = next(self._numbers)
        results = self._waiting[number] = asyncio.Queue()
        try:
            yield number, results
        finally:
            self._waiting.pop(number, None)

    def _send(self, request: wire.Request) -> None:
        """To a host that is gone nothing is sent: whoever waits has heard of it."""
        if self._transport is not None:
            self._transport.write(wire.packed(request))

    # --- The connection --------------------------------------------------------------------------------------

    async def _keep_connected(self) -> None:
        """Connect, and again whenever the connection is lost, until cancelled."""
        loop = asyncio.get_running_loop()
        said = False
        try:
            while not self._changed:
                self._lost.clear()
                try:
                    await loop.create_unix_connection(self._reader, str(self._path))
                except OSError:
                    if not said:
                        log.info("waiting_for_host", message="Waiting for the engine host ...")
                    said = True
                    await asyncio.sleep(_RETRY_S)
                    continue
                said = False
                self._heard_at = loop.time()
                await self._until_lost()
        finally:
            self._close("the worker stops")

    async def _until_lost(self) -> None:
        """Wait for the end of the connection, or end it when nothing comes for too long."""
        loop = asyncio.get_running_loop()
        while not self._lost.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SILENCE_S / 4):
                    await self._lost.wait()
            if not self._lost.is_set() and loop.time() - self._heard_at > _SILENCE_S:
                self._close(f"it has said nothing for {_SILENCE_S:g} s")

    def _reader(self) -> FrameReader:
        return FrameReader(
            wire.MAX_REPLY_BYTES, made=self._made, taken=self._taken, lost=lambda error: self._gone(str(error or ""))
        )

    def _made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def _close(self, why: str) -> None:
        transport = self._transport
        self._gone(why)
        if transport is not None:
            transport.abort()

    def _gone(self, why: str) -> None:
        """The host is lost: first for those who ask whether it is there, then for those who wait for it."""
        if self._transport is None:
            return
        self._transport = self.figures = None
        self._lost.set()
        log.warning("host_lost", streams=len(self._waiting), error=why or None)
        for results in self._waiting.values():
            results.put_nowait(EngineLost(f"the engine host is gone{why and f': {why}'}"))

    def _taken(self, body: bytearray) -> None:
        """Hand a message to whom it is for. Raises WireError."""
        self._heard_at = asyncio.get_running_loop().time()
        reply = wire.read_reply(body)
        match reply:
            case wire.Sound():
                self._sound(reply)
            case wire.Ended(number, reason):
                self._put(number, Spoken(samples=_SILENCE, codes=b"", num_frames=0, finished=reason))
            case wire.Refused(number, message, is_fault):
                self._put(number, GepardError(message) if is_fault else EngineError(message))
            case wire.Profiled(number):
                self._put(number, reply)
            case wire.Figures(figures):
                self.figures = figures
            case wire.Hello():
                self._hello(reply)
            case _:
                assert_never(reply)

    def _put(self, number: int, result: _Result) -> None:
        # One that was cancelled may still be on its way.
        results = self._waiting.get(number)
        if results is not None:
            results.put_nowait(result)

    def _hello(self, hello: wire.Hello) -> None:
        if hello.version != wire.VERSION:
            raise wire.WireError(f"the host speaks version {hello.version}, this worker {wire.VERSION}")
        self._changed = self._info is not None and self._info != hello.info
        self._info = self._info or hello.info
        self.figures = hello.figures
        log.info("host_connected", host=hello.figures.host, device=hello.figures.device)
        self._greeted.set()

    def _sound(self, sound: wire.Sound) -> None:
        rows, size = len(sound.numbers), sound.num_frames
        if len(sound.pcm) != 2 * rows * size * SAMPLES_PER_FRAME or len(sound.codes) != rows * size * CODES_PER_FRAME:
            raise wire.WireError(f"sound of {rows} streams and {size} frames has another size")
        samples = np.frombuffer(sound.pcm, "<i2").astype(np.float32).reshape(rows, -1)
        samples *= 1 / 32768
        start, row_bytes = 0, size * CODES_PER_FRAME
        for row, number, count in zip(samples, sound.numbers, sound.counts, strict=True):
            results = self._waiting.get(number)
            if results is not None:
                results.put_nowait(
                    Spoken(
                        samples=row[: count * SAMPLES_PER_FRAME],
                        codes=bytes(sound.codes[start : start + count * CODES_PER_FRAME]),
                        num_frames=count,
                        finished=None,
                    )
                )
            start += row_bytes


_SILENCE: Samples = np.zeros(0, np.float32)


def _check_bounds(request: wire.Speak) -> None:
    """The host ends the connection, and with it all streams, for what it calls no message. Raises EngineError."""
    for size, most, what in (
        (len(request.prompt_ids), wire.MAX_PROMPT_IDS, "ids of text"),
        (len(request.codes), wire.MAX_CODES_BYTES, "bytes of codes"),
        (len(request.profile), wire.MAX_PROFILE_BYTES, "bytes of a profile"),
    ):
        if size > most:
            raise EngineError(f"{size} {what}; at most {most} are taken")
