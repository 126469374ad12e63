"""The engine on the tiny checkpoint, in vLLM's CPU build. Without vLLM nothing here is collected.

tests/workers/gepard/vllm_backend/test_engine_suite.py runs this folder in the environment that has it.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported, which PyTorch does on its own

collect_ignore_glob = ["test_*.py"] if find_spec("vllm") is None else []

Run = Callable[..., dict[int, list[list[int]]]]


@pytest.fixture(scope="session")
def new_backend(tiny: Path) -> Callable[..., Any]:
    """Starts an engine, the one before it closed: a process has one."""
    from workers.gepard.vllm_backend.engine import VllmBackend  # noqa: PLC0415  # imports vLLM

    @contextlib.contextmanager
    def start(**options: Any) -> Iterator[Any]:
        backend = VllmBackend(tiny, dtype="float32", **{"max_streams": 32, "max_frames": 64, **options})
        try:
            yield backend
        finally:
            backend.close()

    return start


@pytest.fixture(scope="module")
def backend(new_backend: Callable[..., Any], request: pytest.FixtureRequest) -> Iterator[Any]:
    """The module's engine, with the module's OPTIONS."""
    with new_backend(**getattr(request.module, "OPTIONS", {})) as started:
        yield started


@pytest.fixture(autouse=True)
def leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test the engine holds nothing, and no guided row ever ran unguided."""
    yield
    if "backend" in request.fixturenames:
        backend = request.getfixturevalue("backend")
        backend.step()  # the runner hears of the last ends with a step
        assert backend.num_streams == 0
        assert backend.is_clean
        assert backend.model_runner.model_state.frame_sampler.faults.item() == 0


@pytest.fixture(scope="session")
def request_of(checkpoint: Any, prefixes: dict[str | None, Any]) -> Callable[..., Any]:
    """Builds a request from a text, a voice and sampling parameters."""
    from workers.gepard.generate import GenerationRequest  # noqa: PLC0415
    from workers.gepard.sampling import SamplingParams  # noqa: PLC0415

    def build(
        text: str = "Hi there! Great to finally meet you.",
        voice: str | None = "A",
        seed: int = 1,
        codes: Any = None,
        prefix: Any = None,
        **sampling: Any,
    ) -> Any:
        return GenerationRequest(
            prompt_ids=checkpoint.tokenizer.prompt(text).ids,
            prefix=prefixes[voice] if prefix is None else prefix,
            seed=seed,
            sampling=SamplingParams(**sampling),
            codes=codes,
        )

    return build
