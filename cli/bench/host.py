"""Where a result was measured: hardware and commit."""

import os
import platform
import subprocess
from pathlib import Path

import msgspec

_THIS_FILE = Path(__file__).resolve()


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The client's machine; the server's too when the URL is loopback."""

    system: str
    cpu: str
    num_cpus: int
    memory_gib: float | None
    python: str


def this_host() -> Host:
    """The machine that runs this."""
    return Host(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=_cpu_name(),
        num_cpus=os.cpu_count() or 1,
        memory_gib=_memory_gib(),
        python=platform.python_version(),
    )


def load_average() -> float | None:
    """Runnable processes over the last minute; None where the system does not tell."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def commit() -> str | None:
    """The commit this program was run from, with -dirty for changes; None outside its own checkout.

    An installed program may lie inside some other repository: only one that tracks this file counts.
    """
    if _git("ls-files", "--error-unmatch", _THIS_FILE.name) is None:
        return None
    return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603  # no outside input
            ["git", "-C", str(_THIS_FILE.parent), *arguments],  # noqa: S607  # wherever git is
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _memory_gib() -> float | None:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return round(size / 2**30, 1)
