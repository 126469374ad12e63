"""A server that speaks as much of the Hugging Face hub's protocol as a download needs, faults included."""

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c0ffee" * 6 + "c0ff"
_LARGE_BYTES = 1 << 16
"""Larger files are kept as LFS objects and have a digest."""


@dataclass
class Hub:
    """Repositories by name, files by theirs; the faults apply to the file of that name."""

    url: str = ""
    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    token: str | None = None
    """What a request must show; others hear 401, as for a repository that does not exist."""
    gated: bool = False
    """The token is good, the terms were not accepted."""
    cut: dict[str, list[int]] = field(default_factory=dict)
    """The connection ends after so many bytes, once for each entry."""
    sent: dict[str, bytes] = field(default_factory=dict)
    """Other bytes than those that were announced."""
    broken: bool = False
    """Every request is answered with 500."""
    ranges: list[tuple[str, int]] = field(default_factory=list)
    """The file of each GET, and the byte from which it was wanted."""


def _etag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].strip("/")
        if self.hub.broken:
            self._answer(500, b"")
        elif self.hub.token and self.headers.get("authorization") != f"Bearer {self.hub.token}":
            self._answer(401, b"", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif self.hub.gated:
            self._answer(403, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Accept the terms"})
        elif path.startswith("api/models/"):
            self._info(path.removeprefix("api/models/").partition("/revision/")[0])
        else:
            repo, _, rest = path.partition("/resolve/")
            self._file(repo, rest.partition("/")[2])

    def _info(self, repo: str) -> None:
        if repo not in self.hub.repos:
            self._answer(404, b"", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
            return
        siblings = []
        for name, data in self.hub.repos[repo].items():
            sibling = {"rfilename": name, "size": len(data), "blobId": _git_sha1(data)}
            if len(data) > _LARGE_BYTES:
                sibling["lfs"] = {"sha256": _etag(data), "size": len(data), "pointerSize": 134}
            siblings.append(sibling)
        self._answer(200, json.dumps({"id": repo, "sha": COMMIT, "siblings": siblings}).encode())

    def _file(self, repo: str, name: str) -> None:
        data = self.hub.repos.get(repo, {}).get(name)
        if data is None:
            self._answer(404, b"", {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
            return
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{_etag(data)}"', "Accept-Ranges": "bytes"}
        if self.command == "HEAD":
            self._answer(200, data, headers)
            return
        start = int(self.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        self.hub.ranges.append((name, start))
        body = self.hub.sent.get(name, data)[start:]
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        cuts = self.hub.cut.get(name)
        if cuts:
            self._answer(206 if start else 200, body, headers, cut=cuts.pop(0))
            self.close_connection = True
        else:
            self._answer(206 if start else 200, body, headers)

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])


@contextlib.contextmanager
def running_hub(**values: object) -> Iterator[Hub]:
    """A hub on a free port."""
    hub = Hub(**values)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
