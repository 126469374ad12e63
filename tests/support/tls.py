"""TLS in front of servers that are built without it: certificates of a test's own, and a proxy that ends TLS."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import trustme

_SSL_REQUEST = bytes.fromhex("0000000804d2162f")
"""PostgreSQL's question whether TLS is spoken; the answer is one letter, then the handshake begins."""

Open = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@dataclass(frozen=True)
class Certificates:
    """`ca` and `other_ca`: files of certificates, of which only the first has signed the server's."""

    ca: Path
    other_ca: Path
    server: ssl.SSLContext


def certificates(folder: Path, *names: str) -> Certificates:
    """A server's certificate for these names or addresses."""
    ca, other = trustme.CA(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*names).configure_cert(context)
    paths = folder / "ca.pem", folder / "other.pem"
    for authority, path in zip((ca, other), paths, strict=True):
        authority.cert_pem.write_to_path(str(path))
    return Certificates(*paths, context)


@contextlib.asynccontextmanager
async def tls_before(upstream: Open, context: ssl.SSLContext, *, postgres: bool = False) -> AsyncIterator[int]:
    """A port of 127.0.0.1 that speaks TLS and passes on to `upstream`."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(OSError, ssl.SSLError, asyncio.IncompleteReadError):
            if postgres:
                if await reader.readexactly(len(_SSL_REQUEST)) != _SSL_REQUEST:
                    writer.close()
                    return
                writer.write(b"S")
                await writer.drain()
            await writer.start_tls(context)
            up_reader, up_writer = await upstream()
            await asyncio.wait(
                [asyncio.create_task(_pump(reader, up_writer)), asyncio.create_task(_pump(up_reader, writer))],
            )
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
