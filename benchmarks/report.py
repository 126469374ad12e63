"""Results of benchmarks: with what they were measured on, as JSON beside the programs."""

import json
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and the tenths from both ends."""
    tenths = statistics.quantiles(values, n=10)
    return {"median": statistics.median(values), "p10": tenths[0], "p90": tenths[-1]}


def write(name: str, results: Mapping[str, Any]) -> Path:
    """Write `results/NAME.json`, replacing the last one."""
    path = RESULTS / f"{name}.json"
    RESULTS.mkdir(exist_ok=True)
    document = {"benchmark": name, **_circumstances(), **_rounded(results)}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return path


def _circumstances() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(
            _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results")
        ),
        "hardware": {
            "cpu": _cpu_model(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        },
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "load_average_1min": round(os.getloadavg()[0], 2),
    }


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(_ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _cpu_model() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else platform.machine()


def _rounded(value: Any) -> Any:  # noqa: ANN401  # whatever JSON can hold
    if isinstance(value, Mapping):
        return {name: _rounded(item) for name, item in value.items()}
    return round(value, 2) if isinstance(value, float) else value
