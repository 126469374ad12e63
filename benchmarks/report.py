"""Results of benchmarks: with what they were measured on, as JSON beside the programs."""

import json
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from cli.bench.host import commit, load_average, this_host

RESULTS = Path(__file__).parent / "results"


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and the tenths from both ends."""
    tenths = statistics.quantiles(values, n=10)
    return {"median": statistics.median(values), "p10": tenths[0], "p90": tenths[-1]}


def write(name: str, results: Mapping[str, Any], *, digits: int = 2) -> Path:
    """Write `results/NAME.json`, replacing the last one; `digits` behind the point."""
    path = RESULTS / f"{name}.json"
    RESULTS.mkdir(exist_ok=True)
    circumstances = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "host": msgspec.to_builtins(this_host()),
        "load_average_1min": load_average(),
    }
    document = {"benchmark": name, **circumstances, **_rounded(results, digits)}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return path


def _rounded(value: Any, digits: int) -> Any:  # noqa: ANN401  # whatever JSON can hold
    if isinstance(value, Mapping):
        return {name: _rounded(item, digits) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item, digits) for item in value]
    return round(value, digits) if isinstance(value, float) else value
