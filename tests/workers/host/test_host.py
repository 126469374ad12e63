"""The host over its socket, with the tiny model: what workers may do to it and to each other."""

import asyncio
import contextlib
import os
import socket
import stat
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")

from shared.contracts import Sampling
from shared.errors import EngineError, EngineLost
from tests.support.hosted import BACKEND, ThreadHost
from tests.support.synthesis import request
from tests.support.tiny_gepard import CHECKPOINT, clip_of
from tests.support.waiting import eventually
from workers.engines.base import SpeakerProfile
from workers.engines.gepard import GepardEngine
from workers.host import server, wire
from workers.host.client import HostClient

TEXT = "A sentence that is long enough to be sent as it comes."
CAPACITY = 6


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    host = ThreadHost(tmp_path_factory.mktemp("host"), capacity=CAPACITY, num_workers=2)
    host.start()
    yield host
    host.stop()


@contextlib.asynccontextmanager
async def worker(host):
    """A worker's engine, connected."""
    engine = GepardEngine(host=host.path, checkpoint=CHECKPOINT)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


@contextlib.contextmanager
def raw(host):
    """A socket to the host, with its greeting unread."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        sock.connect(str(host.path))
        yield sock


def receive(sock):
    """The next message."""
    head = sock.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        return None
    return wire.read_reply(bytearray(sock.recv(wire.length_of(head, wire.MAX_REPLY_BYTES), socket.MSG_WAITALL)))


def asking(text=TEXT, *, frames=20, seed=1):
    return replace(request(text, "alloy", seed=seed), sampling=Sampling(max_frames=frames, stop_threshold=1.0))


def speak(number, *, frames=20, ids=(5, 6, 7)):
    knobs = Sampling(max_frames=frames, stop_threshold=1.0)
    return wire.Speak(number, list(ids), "alloy", b"", 1, knobs, frames)


async def spoken(engine, asked):
    return [chunk async for chunk in engine.synthesize(asked)]


def codes_of(chunks):
    return b"".join(chunk.resume for chunk in chunks)


def test_the_model_is_stepped_by_the_backend_that_was_asked_for(host):
    assert type(host.model.backend).__name__ == {"torch": "TorchBackend", "vllm": "VllmBackend"}[BACKEND]


async def test_two_workers_share_a_host_and_its_capacity(host):
    async with worker(host) as one, worker(host) as two:
        assert one.info == two.info
        assert one.info.capacity == CAPACITY // 2
        assert one.host.host == two.host.host
        chunks = await asyncio.gather(*(spoken(engine, asking(seed=n)) for n in range(3) for engine in (one, two)))
        assert [sum(chunk.frames for chunk in chunk_list) for chunk_list in chunks] == [20] * 6
        for n in range(0, 6, 2):
            assert codes_of(chunks[n]) == codes_of(chunks[n + 1])
        await eventually(lambda: one.host.frames == two.host.frames == host.steps.num_frames)
        assert one.host.capacity == CAPACITY


async def test_a_worker_that_dies_frees_its_streams_and_disturbs_no_other(host):
    async with worker(host) as one:
        going = asyncio.create_task(spoken(one, asking(frames=40)))
        with raw(host) as sock:
            sock.sendall(wire.packed(*(speak(number, frames=800) for number in range(3))))
            await eventually(lambda: host.steps.num_streams >= 3)
        await eventually(lambda: host.steps.num_streams <= 1)
        assert sum(chunk.frames for chunk in await going) == 40
    await eventually(lambda: host.model.codec.num_free_slots == CAPACITY)


def test_a_stream_that_is_left_is_gone_before_the_next_step(host):
    """The loop itself, without a socket between."""
    from workers.host.loop import HostStream  # noqa: PLC0415 - after torch is known to be there
    from workers.host.requests import generation_of  # noqa: PLC0415

    generation, _ = generation_of(speak(1, frames=800), host.model)
    stream = HostStream(Nobody(), 1, generation)
    host.steps.begin(stream)
    while not host.steps.num_streams:
        pass
    host.steps.leave(stream)
    before = host.steps.num_passes
    while host.steps.num_streams:
        pass
    assert host.steps.num_passes - before <= 1


class Nobody:
    """Owns streams and does not listen."""

    def write(self, data):
        pass

    def forget(self, stream):
        pass


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\xff" * 64,
        b"\0\0\0\0",
        b"\3\0\0\0\xc1\xc1\xc1",
        bytes(wire.packed(speak(1, frames=800), speak(1))),
    ],
    ids=["http", "ones", "empty", "msgpack", "twice"],
)
async def test_what_is_no_message_ends_the_connection_and_nothing_else(host, data):
    async with worker(host) as one:
        going = asyncio.create_task(spoken(one, asking()))
        with raw(host) as sock:
            await asyncio.to_thread(sock.sendall, data)
            while await asyncio.to_thread(_next_or_end, sock):
                pass
        assert sum(chunk.frames for chunk in await going) == 20
    await eventually(lambda: host.steps.num_streams == 0)


def _next_or_end(sock):
    try:
        return receive(sock)
    except ConnectionResetError:
        return None


async def test_a_worker_that_does_not_read_is_let_go_and_holds_up_nobody(host, monkeypatch):
    monkeypatch.setattr(server, "_MAX_UNSENT_BYTES", 100_000)
    with raw(host) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(wire.packed(*(speak(number, frames=400) for number in range(3))))
        async with worker(host) as one:
            assert sum(chunk.frames for chunk in await spoken(one, asking(frames=60))) == 60
            await eventually(lambda: host.steps.num_streams == 0, within_s=60)
        with contextlib.suppress(ConnectionResetError):
            while await asyncio.to_thread(sock.recv, 1 << 16):
                pass


def test_only_this_user_can_open_the_socket(host):
    assert stat.S_IMODE(host.path.stat().st_mode) == 0o600


async def test_a_request_the_model_refuses_ends_alone(host):
    with raw(host) as sock:
        vocabulary = 10**6
        sock.sendall(wire.packed(speak(1, ids=[vocabulary]), speak(2)))
        replies = []
        while not (replies and isinstance(replies[-1], wire.Ended)):
            replies.append(await asyncio.to_thread(receive, sock))
    assert isinstance(replies[0], wire.Hello)
    (refused,) = [reply for reply in replies if isinstance(reply, wire.Refused)]
    assert refused.number == 1
    assert "vocabulary" in refused.message
    assert replies[-1] == wire.Ended(2, "limit")
    assert sum(sum(reply.counts) for reply in replies if isinstance(reply, wire.Sound)) == 20


async def test_more_streams_than_places_are_refused(host):
    async with worker(host) as one:
        results = await asyncio.gather(*(spoken(one, asking(seed=n)) for n in range(9)), return_exceptions=True)
    refused = [result for result in results if isinstance(result, EngineError)]
    assert len(refused) == 9 - CAPACITY
    assert f"all {CAPACITY} streams" in str(refused[0])


async def test_a_clip_becomes_a_voice_while_others_speak(host):
    async with worker(host) as one, worker(host) as two:
        alone = await spoken(one, asking(frames=40))
        going = [asyncio.create_task(spoken(two, asking(frames=40))) for _ in range(2)]
        profile = await one.profile(clip_of(150))
        assert SpeakerProfile.from_bytes(profile.to_bytes()) == profile
        assert [codes_of(chunks) for chunks in await asyncio.gather(*going)] == [codes_of(alone)] * 2


async def test_an_unexpected_fault_of_a_profile_is_not_the_clips(host, monkeypatch):
    monkeypatch.setattr(type(host.model.maker), "make", lambda self, clip: 1 / 0)
    async with worker(host) as one:
        with pytest.raises(Exception, match="no voice could be made") as caught:
            await one.profile(clip_of(150))
    assert not isinstance(caught.value, EngineError)


async def test_a_host_that_hangs_in_a_step_is_ended(tmp_path):
    host = ThreadHost(tmp_path, step_timeout_s=1.5)
    release = []
    step = host.model.backend.step

    def hang():
        while not release:
            os.sched_yield()
        return step()

    host.start()
    async with worker(host) as one:
        assert await spoken(one, asking(frames=2))
        host.model.backend.step = hang
        going = asyncio.create_task(spoken(one, asking()))
        await eventually(lambda: host.failure is not None, within_s=20)
        release.append(True)
        with pytest.raises(EngineLost):
            await going
    assert isinstance(host.failure, TimeoutError)
    host.stop()


async def test_a_worker_finds_a_host_that_comes_back_and_ends_for_another(tmp_path):
    """A new process at the same path; then one with another capacity."""
    host = ThreadHost(tmp_path)
    client = HostClient(host.path)
    starting = asyncio.create_task(client.start())
    await asyncio.sleep(0.2)
    assert not starting.done()
    host.start()
    await starting
    assert client.is_available
    path = host.path

    async def replaced(**options):
        await asyncio.to_thread(host.end)
        await eventually(lambda: not client.is_available)
        other = ThreadHost(tmp_path, **options)
        other.path = path
        other.start()
        return other

    second = await replaced()
    await eventually(lambda: client.is_available)
    await asyncio.to_thread(second.end)
    await eventually(lambda: not client.is_available)
    third = ThreadHost(tmp_path, capacity=5)
    third.path = path
    third.start()

    def is_refused():
        try:
            return client.is_available and None
        except EngineError:
            return True

    await eventually(is_refused)
    await client.stop()
    for used in (third, second, host):
        await asyncio.to_thread(used.stop)


def test_a_worker_needs_no_torch():
    """Each of several workers would hold some hundred megabytes of it."""
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    code = "import sys, workers.engines.gepard, cli.worker_process; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
