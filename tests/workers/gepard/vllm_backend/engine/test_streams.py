"""Many streams in one engine: each as the reference and the plain backend have it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from shared.errors import EngineError
from tests.support import refused_requests
from tests.workers.gepard.vllm_backend.engine.driving import drain, run, run_plain
from workers.gepard.sampling import SamplingParams

OPTIONS = {"max_streams": 32}


def test_all_recorded_greedy_runs_at_once_are_the_reference_ones(
    backend: Any, golden: dict[str, np.ndarray], facts: dict[str, Any], request_of: Any
) -> None:
    """With and without a voice, penalties, guidance, stops and caps in one batch."""
    streams = {
        name: backend.add(request_of(run_["text"], run_["ref"], temperature=0.0, **run_["args"]))
        for name, run_ in facts["greedy"].items()
    }
    assert len(streams) == 23
    frames, ends = drain(backend)
    for name, stream in streams.items():
        assert np.array_equal(np.array(frames[stream]).T, golden[f"greedy_{name}"]), name
        stopped = name.startswith("stop") and "threshold_off" not in name
        assert ends[stream] == ("stop" if stopped else "limit"), name


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 1.0},
        {"temperature": 3.0, "top_k": 4, "repetition_penalty": 1.2, "repetition_window": 5},
        {"temperature": 2.0, "cfg_scale": 2.0, "cfg_frames": 6},
        {"temperature": 2.0, "cfg_scale": 1.5, "cfg_uncond_mode": "audio_only"},
    ],
    ids=["plain", "penalised", "guided at the onset", "guided"],
)
def test_a_seed_draws_what_the_plain_backend_draws_alone_and_among_others(
    backend: Any, checkpoint: Any, request_of: Any, sampling: dict[str, Any]
) -> None:
    wanted = request_of(seed=2**63 + 42, max_frames=16, stop_threshold=1.0, **sampling)
    expected = run_plain(checkpoint.model, wanted)
    assert run(backend, wanted) == expected
    for index in range(5):
        backend.add(request_of(f"Other {index}", (None, "A", "B")[index % 3], seed=index, max_frames=3 + 4 * index))
    backend.step()
    backend.step()
    stream = backend.add(wanted)
    backend.add(request_of("One more", "B", seed=9, max_frames=5, cfg_scale=1.0 + len(sampling) % 2))
    assert drain(backend)[0][stream] == expected


def test_another_seed_gives_other_codes(backend: Any, request_of: Any) -> None:
    runs = [run(backend, request_of(seed=seed, temperature=3.0, max_frames=2, stop_threshold=1.0)) for seed in (1, 2)]
    assert runs[0] != runs[1]


@pytest.mark.parametrize(
    ("sampling", "given"),
    [
        ({}, 1),
        ({}, 7),
        ({"repetition_penalty": 1.3, "repetition_window": 4}, 7),
        ({"repetition_penalty": 1.3, "repetition_window": 0}, 7),
        ({"cfg_scale": 2.0}, 7),
        ({"cfg_scale": 2.0, "cfg_frames": 4}, 3),
        ({"cfg_scale": 2.0, "cfg_frames": 4}, 7),
    ],
)
def test_a_request_goes_on_from_the_codes_it_has(
    backend: Any, request_of: Any, sampling: dict[str, Any], given: int
) -> None:
    knobs = {"seed": 9, "temperature": 1.0, "max_frames": 12, "stop_threshold": 1.0, **sampling}
    whole = run(backend, request_of(**knobs))
    assert len(whole) == 12
    assert run(backend, request_of(**knobs, codes=torch.tensor(whole[:given]))) == whole[given:]


@pytest.mark.parametrize(("codes", "reason"), [(13, "stop"), (40, "limit")])
def test_a_request_that_had_ended_ends_again(
    backend: Any, golden: dict[str, np.ndarray], request_of: Any, codes: int, reason: str
) -> None:
    name = {"stop": "greedy_stop13_noref", "limit": "greedy_noref_short"}[reason]
    given = torch.from_numpy(golden[name].T).long()
    stream = backend.add(request_of("No.", None, temperature=0.0, max_frames=40, codes=given))
    frames, ends = drain(backend)
    assert len(given) == codes
    assert (frames, ends) == ({}, {stream: reason})


def test_a_removed_stream_is_gone_at_once_and_the_others_go_on(backend: Any, request_of: Any) -> None:
    knobs = {"temperature": 1.0, "max_frames": 14, "stop_threshold": 1.0}
    alone = run(backend, request_of(seed=5, **knobs))
    dropped = [backend.add(request_of("Stop me", "B", seed=seed, **knobs)) for seed in range(3)]
    kept = backend.add(request_of(seed=5, **knobs))
    codes: list[list[int]] = []
    for number in range(4):
        codes += [backend.frames[step.row].tolist() for step in backend.step() if step.stream == kept]
        if number < 3:
            backend.remove(dropped[number])
            backend.remove(dropped[number])
            later = backend.add(request_of("Another in its place", None, seed=number, **knobs))
            dropped.append(later)
    assert backend.num_streams == 4
    for stream in dropped:
        backend.remove(stream)
    assert backend.num_streams == 1
    assert codes + drain(backend)[0][kept] == alone


def test_a_stream_removed_before_its_first_step_leaves_nothing(backend: Any, request_of: Any) -> None:
    backend.remove(backend.add(request_of(max_frames=9)))
    backend.remove(backend.add(request_of(max_frames=1, codes=torch.zeros((1, 32), dtype=torch.int64))))
    assert backend.num_streams == 0
    assert backend.step() == []


def test_streams_beyond_the_bound_are_refused(backend: Any, request_of: Any) -> None:
    streams = [backend.add(request_of(max_frames=9)) for _ in range(backend.max_streams)]
    with pytest.raises(EngineError, match="all 32 streams"):
        backend.add(request_of(max_frames=9))
    for stream in streams:
        backend.remove(stream)


@pytest.mark.parametrize(
    "change",
    [
        *refused_requests.CHANGES,
        pytest.param({"prefix": torch.zeros((9, 64))}, id="long prefix"),
        pytest.param({"sampling": SamplingParams(max_frames=65)}, id="more frames than the engine takes"),
    ],
)
def test_a_request_that_does_not_fit_is_refused(backend: Any, request_of: Any, change: dict[str, Any]) -> None:
    base = request_of(max_frames=10)
    with pytest.raises(ValueError, match=r"codes|prefix|prompt|frames"):
        backend.add(replace(base, **change))
    assert backend.num_streams == 0


def test_rows_are_not_written_again_for_64_frames(backend: Any, request_of: Any) -> None:
    """Streams that follow one another in a lane: who reads a frame late still finds it."""
    kept: list[tuple[int, list[int]]] = []
    for seed in range(5):
        stream = backend.add(request_of(seed=seed, temperature=3.0, max_frames=20, stop_threshold=1.0))
        while backend.num_streams:
            for step in backend.step():
                if step.row is not None:
                    assert step.stream == stream
                    kept.append((step.row, backend.frames[step.row].tolist()))
        for row, codes in kept[-64:]:
            assert backend.frames[row].tolist() == codes


def test_requests_of_vllms_own_warm_up_are_taken(backend: Any) -> None:
    """On a GPU vLLM runs such requests at start; they know nothing of this model."""
    # Not before the backend has set vLLM up.
    from vllm.v1.worker.gpu.warmup import warmup_kernels  # noqa: PLC0415

    runner = backend.model_runner
    warmup_kernels(runner, runner.execute_model, lambda _: runner.sample_tokens(None))
    assert runner.model_state.num_rows == 0
