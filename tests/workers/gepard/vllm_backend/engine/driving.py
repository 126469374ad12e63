"""Running requests on a backend, vLLM's or the plain one."""

from typing import Any

from workers.gepard.generate import FrameGenerator


def drain(backend: Any) -> tuple[dict[int, list[list[int]]], dict[int, str]]:
    """Run to the end of all streams: codes and ends by stream."""
    frames: dict[int, list[list[int]]] = {}
    ends: dict[int, str] = {}
    while backend.num_streams:
        for step in backend.step():
            if step.row is not None:
                frames.setdefault(step.stream, []).append(backend.frames[step.row].tolist())
            if step.finished is not None:
                assert step.stream not in ends
                ends[step.stream] = step.finished
    return frames, ends


def run(backend: Any, request: Any) -> list[list[int]]:
    """The codes of one request."""
    stream = backend.add(request)
    return drain(backend)[0].get(stream, [])


def run_plain(model: Any, request: Any) -> list[list[int]]:
    """The codes of one request on the plain PyTorch backend."""
    generator = FrameGenerator(model, rows=1, max_streams=1)
    generator.add(request)
    codes = []
    while len(generator):
        codes += [step.codes.tolist() for step in generator.step() if step.codes is not None]
    return codes
