"""A server that answers every POST with the same bytes, however wrong they are."""

import contextlib
import socket
import threading
from collections.abc import Iterator

_END_OF_HEAD = b"\r\n\r\n"


@contextlib.contextmanager
def answering(reply: bytes) -> Iterator[str]:
    """Read the head of a request, send `reply`, and close. Yields the server's URL."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, reply))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            # Ends the accept that waits.
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(server: socket.socket, reply: bytes) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        with client, contextlib.suppress(OSError):
            read = b""
            while _END_OF_HEAD not in read:
                read += client.recv(65536)
            client.sendall(reply)
