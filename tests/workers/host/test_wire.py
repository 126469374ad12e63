"""Messages over a byte stream: what was sent comes out, and nothing else gets in."""

import asyncio
import struct

import msgspec
import pytest

from shared.contracts import Sampling
from workers.host import wire
from workers.host.frames import FrameReader


def speak(number=1, **changes):
    fields = {
        "prompt_ids": [1, 2, 3],
        "starter": "alloy",
        "profile": b"",
        "seed": -1,
        "sampling": Sampling(top_k=3),
        "frame_cap": 80,
        "codes": b"\1" * 32,
    }
    return wire.Speak(number, **{**fields, **changes})


SOUND = wire.Sound([1, 2], [2, 1], 2, memoryview(b"\0" * 8192), memoryview(b"\1" * 128))


class Transport:
    """What a reader does to its transport."""

    aborted = False

    def abort(self):
        self.aborted = True


def reading(data, *, max_bytes=1 << 20, at_once=7, taken=None):
    """Feed bytes in small pieces, as a socket may; returns the messages, the transport and the reason of the end."""
    bodies, reasons, transport = [], [], Transport()
    reader = FrameReader(max_bytes, made=lambda _: None, taken=taken or bodies.append, lost=reasons.append)
    reader.connection_made(transport)
    while data and not transport.aborted:
        room = reader.get_buffer(-1)
        count = min(len(room), at_once, len(data))
        room[:count] = data[:count]
        data = data[count:]
        reader.buffer_updated(count)
    reader.connection_lost(None)
    return bodies, transport, reasons[0]


@pytest.mark.parametrize("at_once", [1, 3, 7, 100_000])
def test_messages_come_out_as_they_were_sent_however_they_are_cut(at_once):
    requests = [speak(), wire.Cancel(1), wire.Profile(2, b"clip"), speak(3, codes=b"")]
    bodies, transport, _ = reading(bytes(wire.packed(*requests)), at_once=at_once)
    assert [wire.read_request(body) for body in bodies] == requests
    assert not transport.aborted


def test_sound_is_read_in_place():
    (body,), _, _ = reading(bytes(wire.packed(SOUND)))
    sound = wire.read_reply(body)
    assert (sound.numbers, sound.counts, sound.num_frames) == ([1, 2], [2, 1], 2)
    assert sound.pcm == SOUND.pcm
    assert sound.pcm.obj is body


@pytest.mark.parametrize("length", [0, 101, 2**32 - 1])
def test_a_length_that_cannot_be_ends_the_connection_before_memory_is_taken(length):
    bodies, transport, reason = reading(struct.pack("<I", length) + b"x" * 8, max_bytes=100)
    assert bodies == []
    assert transport.aborted
    assert isinstance(reason, wire.WireError)


def test_what_cannot_be_handled_ends_the_connection():
    def taken(body):
        raise wire.WireError("no")

    _, transport, reason = reading(bytes(wire.packed(wire.Cancel(1), wire.Cancel(2))), taken=taken)
    assert transport.aborted
    assert str(reason) == "no"


@pytest.mark.parametrize(
    "body",
    [
        b"\xc1",
        b"",
        b"\x93\x01\x02",
        msgspec.msgpack.encode({"number": 1}),
        msgspec.msgpack.encode([2, -1]),
        msgspec.msgpack.encode([99, 1]),
        msgspec.msgpack.encode([2, "one"]),
        msgspec.msgpack.encode([3, 1, b"x" * (2 << 20) + b"x"]),
        msgspec.msgpack.encode([1, 1, [], "a", b"", 1, {}, 80, b""]),
        msgspec.msgpack.encode([1, 1, [-1], "a", b"", 1, {}, 80, b""]),
        msgspec.msgpack.encode([1, 1, [1] * 2049, "a", b"", 1, {}, 80, b""]),
        msgspec.msgpack.encode([1, 1, [1], "a", b"", 1, {}, 0, b""]),
        msgspec.msgpack.encode([1, 1, [1], "a", b"", 1, {}, 80, b"\0" * 64001]),
        msgspec.msgpack.encode([1, 1, [1], "a", b"", 1, {"temperature": 9.0}, 80, b""]),
        b"\x92\x02" * 5000,
    ],
    ids=range(15),
)
def test_what_is_no_request_is_refused(body):
    with pytest.raises(wire.WireError):
        wire.read_request(bytearray(body))


@pytest.mark.parametrize("loop_name", ["asyncio", "uvloop"])
def test_a_reader_works_on_both_event_loops(loop_name, tmp_path):
    """Workers and host run on uvloop, whose transports are of other classes."""
    factory = None if loop_name == "asyncio" else pytest.importorskip("uvloop").new_event_loop

    async def exchange():
        got, ended = [], asyncio.Event()

        def made(transport):
            transport.write(wire.packed(SOUND, wire.Ended(1, "stop")))
            transport.close()

        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(
            lambda: FrameReader(1 << 20, made=made, taken=got.append, lost=lambda _: None), str(tmp_path / "s")
        )
        await loop.create_unix_connection(
            lambda: FrameReader(1 << 20, made=lambda _: None, taken=got.append, lost=lambda _: ended.set()),
            str(tmp_path / "s"),
        )
        await ended.wait()
        server.close()
        return [wire.read_reply(body) for body in got]

    with asyncio.Runner(loop_factory=factory) as runner:
        sound, end = runner.run(exchange())
    assert sound.pcm == SOUND.pcm
    assert end == wire.Ended(1, "stop")
