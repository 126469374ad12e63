"""An engine with little room: short steps, few cache blocks, a small voice table."""

from typing import Any

import pytest
import torch

from tests.workers.gepard.vllm_backend.engine.driving import drain, run, run_plain

# 7 blocks of 32 positions, of which vLLM keeps one: two streams of two or three blocks. Steps of 6 ids.
OPTIONS = {
    "max_streams": 4,
    "max_frames": 64,
    "max_prompt_ids": 100,
    "step_ids": 6,
    "cache_blocks": 7,
    "spare_voices": 1,
}

KNOBS = {"temperature": 1.0, "max_frames": 10, "stop_threshold": 1.0}


def test_prompts_in_chunks_give_the_same_codes(backend: Any, checkpoint: Any, request_of: Any) -> None:
    """Prompts of 20 and more ids are read six at a time, while others decode."""
    requests = [
        request_of(seed=1, **KNOBS),
        request_of("No.", "B", seed=2, **KNOBS),
        request_of(seed=3, cfg_scale=2.0, **KNOBS),
    ]
    streams = [backend.add(item) for item in requests]
    frames, _ = drain(backend)
    for stream, item in zip(streams, requests, strict=True):
        assert frames[stream] == run_plain(checkpoint.model, item)


def test_given_codes_in_chunks_are_not_overwritten(backend: Any, request_of: Any) -> None:
    knobs = {**KNOBS, "repetition_penalty": 1.3, "repetition_window": 0, "seed": 4}
    whole = run(backend, request_of(**knobs))
    assert run(backend, request_of(**knobs, codes=torch.tensor(whole[:9]))) == whole[9:]


def test_streams_wait_for_the_cache_and_none_is_preempted(backend: Any, checkpoint: Any, request_of: Any) -> None:
    """Four streams where the cache holds two or three: all come to their end, in order, with their own codes."""
    requests = [request_of(seed=seed, **{**KNOBS, "max_frames": 20}) for seed in range(4)]
    streams = [backend.add(item) for item in requests]
    frames, _ = drain(backend)
    for stream, item in zip(streams, requests, strict=True):
        assert frames[stream] == run_plain(checkpoint.model, item)


def test_a_pair_waits_until_there_is_room_for_both(backend: Any, checkpoint: Any, request_of: Any) -> None:
    others = [backend.add(request_of(seed=seed, **KNOBS)) for seed in range(3)]
    guided = request_of(seed=7, cfg_scale=2.5, **KNOBS)
    pair = backend.add(guided)
    backend.step()
    frames, _ = drain(backend)
    assert frames[pair] == run_plain(checkpoint.model, guided)
    assert all(len(frames[other]) == 10 for other in others)


def test_a_waiting_stream_can_be_removed(backend: Any, request_of: Any) -> None:
    streams = [backend.add(request_of(seed=seed, **{**KNOBS, "max_frames": 40})) for seed in range(4)]
    backend.step()
    for stream in reversed(streams):
        backend.remove(stream)


def test_voices_come_and_go_in_a_table_smaller_than_their_number(
    backend: Any, checkpoint: Any, request_of: Any, prefixes: dict[str | None, Any]
) -> None:
    """Eight voices in five rows, then the first again: each speaks with its own."""
    knobs = {**KNOBS, "temperature": 0.0, "max_frames": 2}
    requests = [request_of(prefix=prefixes["A"] * (1 + number / 4), **knobs) for number in range(8)]
    for item in [*requests, requests[0]]:
        assert run(backend, item) == run_plain(checkpoint.model, item)


def test_two_voices_at_once(backend: Any, checkpoint: Any, request_of: Any) -> None:
    requests = [request_of("Hi", voice, temperature=0.0, max_frames=4, stop_threshold=1.0) for voice in ("A", "B")]
    streams = [backend.add(item) for item in requests]
    frames, _ = drain(backend)
    assert [frames[stream] for stream in streams] == [run_plain(checkpoint.model, item) for item in requests]
    assert frames[streams[0]] != frames[streams[1]]


def test_a_request_larger_than_the_whole_cache_is_refused(backend: Any, request_of: Any) -> None:
    with pytest.raises(ValueError, match="cache blocks"):
        backend.add(request_of("word " * 20, cfg_scale=2.0, **{**KNOBS, "max_frames": 64}))
