"""The load client reads replies right, however the network cuts them."""

import asyncio
import contextlib
import time

import pytest

from benchmarks.gpu.raw_http import SpeechConnection
from cli.bench.stream import Stream
from shared.formats import AudioFormat

_AUDIO = bytes(range(256)) * 50
_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nx-sample-rate: 16000\r\n\r\n"
_CHUNKS = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in (_AUDIO[:7], _AUDIO[7:]))
_REFUSAL = b'{"error": {"code": "server_overloaded"}}'


async def ask(reply: bytes, *, piece_bytes: int, audio_format=AudioFormat.MP3, timeout_s: float = 10) -> Stream:
    """What the client makes of a server's bytes, sent piece by piece; then the server closes."""

    async def serve(reader, writer):
        await reader.readuntil(b"{}")
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(reply), piece_bytes):
                writer.write(reply[start : start + piece_bytes])
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        stream = Stream(text="", due=0.0, audio_format=audio_format)
        port = server.sockets[0].getsockname()[1]
        await SpeechConnection(stream).ask(port, b"{}", time.perf_counter(), timeout_s=timeout_s)
    return stream


@pytest.mark.parametrize("piece_bytes", [1, 3, 1000, 100_000])
async def test_a_body_is_read_whatever_its_pieces(piece_bytes):
    stream = await ask(_HEAD + _CHUNKS + b"0\r\n\r\n", piece_bytes=piece_bytes)
    assert (stream.error, bytes(stream.body), stream.rate_hz) == ("", _AUDIO, 16000)
    assert stream.arrivals[-1][1] == len(_AUDIO)


async def test_bare_samples_are_counted_and_not_kept():
    stream = await ask(_HEAD + _CHUNKS + b"0\r\n\r\n", piece_bytes=999, audio_format=AudioFormat.PCM)
    assert (stream.error, bytes(stream.body), stream.arrivals[-1][1]) == ("", b"", len(_AUDIO))


async def test_a_reply_that_is_cut_is_an_error():
    stream = await ask(_HEAD + _CHUNKS, piece_bytes=1000)
    assert stream.error == "broken_off"


async def test_a_refusal_is_named_by_its_code():
    head = f"HTTP/1.1 503 Service Unavailable\r\ncontent-length: {len(_REFUSAL)}\r\n\r\n".encode()
    stream = await ask(head + _REFUSAL, piece_bytes=10)
    assert (stream.error, stream.arrivals) == ("server_overloaded", [])
