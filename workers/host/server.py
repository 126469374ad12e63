"""The host's end of the sockets: requests of workers to the loop and the maker of profiles, sound back."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import assert_never

import torch
from msgspec.structs import replace

from shared.clip import Clip
from shared.contracts import HostFigures
from shared.errors import EngineError
from shared.telemetry import get_logger
from workers.engines.base import SpeakerProfile
from workers.host import wire
from workers.host.delivery import Delivery
from workers.host.frames import FrameReader
from workers.host.loop import HostStream, Owner, StepLoop
from workers.host.model import LoadedModel
from workers.host.requests import generation_of

FIGURES_EVERY_S = 0.5

_MAX_UNSENT_BYTES = 64 << 20
"""Sound a worker has not taken; one that lets so much lie (some 20 minutes of a stream) has stopped reading."""

_MAX_PROFILES = 64
"""Clips of a worker that wait for their turn."""

log = get_logger()


class HostServer:
    """Serves workers on a Unix socket, on the event loop that runs `serve`."""

    def __init__(
        self,
        model: LoadedModel,
        steps: StepLoop,
        delivery: Delivery,
        figures: HostFigures,
        *,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """`figures`: what does not change of them. `on_failure`: see EngineHost."""
        self.model = model
        self.steps = steps
        self._delivery = delivery
        self._on_failure = on_failure
        self._figures = figures
        self._connections: set[_Connection] = set()
        self._loop = asyncio.get_running_loop()
        # One clip at a time: encoding is seconds of every core on a CPU.
        self.clips = ThreadPoolExecutor(1, thread_name_prefix="clips")

    async def serve(self, path: Path) -> None:
        """Take workers at `path` until cancelled; then let them go. Raises OSError for a path that cannot be."""
        server = await self._loop.create_unix_server(self._protocol, sock=_listening(path))
        try:
            while True:
                await asyncio.sleep(FIGURES_EVERY_S)
                data = wire.packed(wire.Figures(self.figures()))
                for connection in tuple(self._connections):
                    connection.write(data)
        finally:
            server.close()
            for connection in tuple(self._connections):
                connection.close()
            self.clips.shutdown(wait=False, cancel_futures=True)

    def figures(self) -> HostFigures:
        """How the host is now."""
        steps = self.steps
        return replace(
            self._figures,
            streams=steps.num_streams,
            step_ms=steps.step_ms,
            codec_ms=steps.codec_ms,
            waiting_frames=steps.num_waiting_frames,
            late_chunks=steps.num_late,
            frames=steps.num_frames,
        )

    def check_device(self, error: Exception) -> None:
        """Something failed beside the loop: was it the device, and is all lost?"""
        if self.model.device.type == "cuda":
            try:
                torch.cuda.synchronize(self.model.device)
            except RuntimeError:
                self._on_failure(error)

    def _protocol(self) -> FrameReader:
        connection = _Connection(self)
        return FrameReader(
            wire.MAX_REQUEST_BYTES,
            made=connection.made,
            taken=connection.taken,
            lost=connection.lost,
        )

    def entered(self, connection: "_Connection") -> None:
        """A worker has connected."""
        self._connections.add(connection)

    def left(self, connection: "_Connection") -> None:
        """A worker is gone."""
        self._connections.discard(connection)

    def post(self, data: Mapping[Owner, bytearray], ends: list[HostStream]) -> None:
        """For the delivery, from its thread. A loop that is closed sends nothing more."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._send, data, ends)

    def _send(self, data: Mapping[Owner, bytearray], ends: list[HostStream]) -> None:
        self._delivery.taken()
        for stream in ends:
            stream.owner.forget(stream)
        for owner, message in data.items():
            owner.write(message)


class _Connection:
    """One worker: the owner of its streams, which end with it."""

    def __init__(self, server: HostServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._profiles: set[asyncio.Task[None]] = set()
        self.streams: dict[int, HostStream] = {}

    def made(self, transport: asyncio.Transport) -> None:
        if not _is_same_user(transport):
            log.warning("host_refused_peer")
            transport.abort()
            return
        self._transport = transport
        self._server.entered(self)
        self.write(wire.packed(wire.Hello(wire.VERSION, self._server.model.info, self._server.figures())))

    def lost(self, error: Exception | None) -> None:
        """Free all that the worker had, within a pass."""
        if self._transport is None:
            return
        self._transport = None
        self._server.left(self)
        log.info("worker_gone", streams=len(self.streams), error=error and f"{type(error).__name__}: {error}")
        for stream in self.streams.values():
            self._server.steps.leave(stream)
        self.streams.clear()
        for task in self._profiles:
            task.cancel()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def write(self, data: bytearray) -> None:
        """Send, unless the worker is gone; a worker that takes nothing for too long is."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > _MAX_UNSENT_BYTES:
            log.error("worker_does_not_read", streams=len(self.streams))
            self._transport.abort()
            return
        self._transport.write(data)

    def forget(self, stream: HostStream) -> None:
        # Its number may be in use again, for another.
        if self.streams.get(stream.number) is stream:
            del self.streams[stream.number]

    def taken(self, body: bytearray) -> None:
        """Obey a message. Raises WireError."""
        request = wire.read_request(body)
        match request:
            case wire.Speak():
                self._speak(request)
            case wire.Cancel(number):
                stream = self.streams.pop(number, None)
                if stream is not None:
                    self._server.steps.leave(stream)
            case wire.Profile():
                self._profile(request)
            case _:
                assert_never(request)

    def _speak(self, request: wire.Speak) -> None:
        if request.number in self.streams:
            raise wire.WireError(f"the stream {request.number} runs already")
        if len(self.streams) >= self._server.model.max_streams:
            self._refuse(request.number, f"all {self._server.model.max_streams} streams are in use")
            return
        try:
            generation, given = generation_of(request, self._server.model)
        except EngineError as error:
            self._refuse(request.number, str(error))
            return
        stream = HostStream(self, request.number, generation, given)
        self.streams[request.number] = stream
        self._server.steps.begin(stream)

    def _refuse(self, number: int, message: str) -> None:
        self.write(wire.packed(wire.Refused(number, message)))

    def _profile(self, request: wire.Profile) -> None:
        if len(self._profiles) >= _MAX_PROFILES:
            self._refuse(request.number, f"{_MAX_PROFILES} clips wait already")
            return
        try:
            clip = Clip.from_bytes(request.clip)
        except ValueError as error:
            self._refuse(request.number, str(error))
            return
        task = asyncio.get_running_loop().create_task(self._make_profile(request.number, clip))
        self._profiles.add(task)
        task.add_done_callback(self._profiles.discard)

    async def _make_profile(self, number: int, clip: Clip) -> None:
        make = self._server.model.maker.make
        try:
            profile: SpeakerProfile = await asyncio.get_running_loop().run_in_executor(self._server.clips, make, clip)
        except EngineError as error:
            self._refuse(number, str(error))
        except Exception as error:
            log.exception("profile_failed")
            self._server.check_device(error)
            self.write(wire.packed(wire.Refused(number, "no voice could be made of the clip", is_fault=True)))
        else:
            self.write(wire.packed(wire.Profiled(number, profile.to_bytes())))


def _listening(path: Path) -> socket.socket:
    """A socket at `path` that only this user can reach; one that a killed host left there goes."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(path))
        path.chmod(0o600)
    except OSError:
        listening.close()
        raise
    return listening


def _is_same_user(transport: asyncio.Transport) -> bool:
    """Beside the file's mode, where the system tells who is at the other end."""
    option = getattr(socket, "SO_PEERCRED", None)
    sock = transport.get_extra_info("socket")
    if option is None or sock is None:
        return True
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return bool(uid == os.getuid())
