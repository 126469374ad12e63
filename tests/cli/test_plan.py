"""The plan reckons with measured figures, and says so where there are none."""

import json
import math

import pytest
from click.testing import CliRunner

from cli.main import main
from cli.plan import Figure, Wanted, bits_per_second, plan_lines, read_figures
from shared.formats import FORMATS, AudioFormat
from tests.support.compose import ROOT


def wanted(**changes) -> Wanted:
    given = {"streams": 1000, "model": "hibari", "audio_format": AudioFormat.PCM, "reply_s": 30.0, "load": 0.7}
    return Wanted(**{**given, **changes})


def amounts(**changes) -> dict[str, str | None]:
    return {line.subject: line.amount for line in plan_lines(wanted(**changes), read_figures())}


def test_every_figure_names_a_file_that_is_there():
    figures = read_figures()
    flat = [figures.gateway_cpu_ms, figures.redis_cpu_ms, figures.redis_bytes_per_payload_byte, figures.profile_kb]
    flat += [
        figure for worker in figures.workers.values() for figure in (worker.streams, worker.cores, worker.memory_mb)
    ]
    for figure in flat:
        if figure.value is not None:
            assert (ROOT / figure.source.split(" ")[0]).exists(), figure


def test_the_figures_are_those_of_the_results():
    results = ROOT / "benchmarks" / "results"
    figures = read_figures()
    costs = json.loads((results / "parts_cost.json").read_text())
    for part, figure in (("gateway", figures.gateway_cpu_ms), ("valkey", figures.redis_cpu_ms)):
        highest = max(one["cpu_ms_per_audio_s"][part] for one in costs["formats"].values())
        assert figure.value == pytest.approx(highest, abs=0.01)
    assert figures.workers["hibari"].memory_mb.value == pytest.approx(costs["peak_memory_mb"]["worker"], abs=1)
    best = json.loads((results / "bench_16.json").read_text())
    assert figures.workers["hibari"].streams.value == best["asked"]["concurrency"]
    assert best["summary"]["underruns"] == 0


def test_twice_the_streams_take_twice_the_workers():
    streams = read_figures().workers["hibari"].streams.value
    assert streams is not None
    assert amounts()["workers"] == str(math.ceil(1000 / (0.7 * streams)))
    assert int(amounts(streams=2000)["workers"] or 0) == pytest.approx(2 * int(amounts()["workers"] or 0), abs=1)


def test_what_was_not_measured_is_unknown_and_says_how_to_find_out():
    figures = read_figures()
    unmeasured = Figure(None, "")
    figures.workers["gepard"] = type(figures.workers["gepard"])(unmeasured, unmeasured, unmeasured)
    (line, *_) = plan_lines(wanted(model="gepard"), figures)
    assert line.amount is None
    assert "--streams-per-worker" in line.source
    (line, *_) = plan_lines(wanted(model="gepard", streams_per_worker=Figure(100.0, "mine")), figures)
    assert line.amount == "15"


def test_more_than_one_redis_carries_is_said():
    assert amounts(streams=100)["Redis"] == "1"
    assert "each with a stack of its own" in (amounts(streams=100_000)["Redis"] or "")


def test_there_is_always_a_gateway_to_spare():
    assert amounts(streams=1)["gateways"] == "2, on 2 cores"


@pytest.mark.parametrize(
    ("audio_format", "rate"), [("pcm", 384_000), ("ulaw", 64_000), ("mp3", 64_000), ("opus", 48_000)]
)
def test_rates_are_those_that_clients_get(audio_format: str, rate: int):
    assert bits_per_second(AudioFormat(audio_format)) == rate


def test_every_format_has_a_rate():
    assert all(bits_per_second(audio_format) > 0 for audio_format in FORMATS)


def test_the_command_prints_each_amount_with_its_source():
    done = CliRunner().invoke(main, ["plan", "--streams", "1000"])
    assert done.exit_code == 0, done.output
    assert "benchmarks/results/parts_cost.json" in done.output
    assert "gateways" in done.output


def test_a_figure_without_a_source_is_refused():
    with pytest.raises(ValueError, match="source"):
        Figure(1.0, "")
