"""A run as a picture: how first audio and deficits are spread."""

from importlib.util import find_spec
from pathlib import Path

from cli.bench.report import Result, load_in_words
from gateway.underrun import AUDIBLE_S
from shared.errors import GepardError


def require_matplotlib() -> None:
    """Raise GepardError when plots cannot be made: before a run, not after it."""
    if find_spec("matplotlib") is None:
        raise GepardError("plots need matplotlib: pip install 'gepard-gateway[bench]'")


def save_plot(result: Result, path: Path) -> None:
    """Write a PNG."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # an extra, and slow to load

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, values, label, least_ms in (
        (left, result.streams.first_audio_ms, "time to first audio, ms", 0),
        # So wide that a run without deficits shows how far it is from an audible one.
        (right, result.streams.deficit_ms, "worst deficit, ms", 2000 * AUDIBLE_S),
    ):
        known = sorted(value for value in values if value is not None)
        if known:
            axes.ecdf(known)
            axes.set_xlim(0, 1.05 * max(known[-1], least_ms))
        axes.set_xlabel(label)
        axes.set_ylabel("share of streams")
        axes.set_ylim(0, 1)
        axes.grid(alpha=0.3)
    right.axvline(1000 * AUDIBLE_S, color="tab:red", linestyle="--", label="audible")
    right.legend(loc="lower right")
    asked, summary = result.asked, result.summary
    figure.suptitle(
        f"{asked.model}, {asked.format}, {load_in_words(asked)}: {summary.completed} of {summary.requests} streams, "
        f"{summary.times_real_time:.1f} x real time"
    )
    figure.savefig(path, format="png", dpi=120)
