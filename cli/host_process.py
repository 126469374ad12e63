"""`gepard host`: the engine host alone, as a part of `gepard serve` and `gepard worker`."""

import asyncio
import os
import signal
from pathlib import Path

import click
import uvloop

from cli.gepard import require_gepard
from cli.parent import end_with_parent
from shared.errors import SettingsError
from shared.settings import Settings
from shared.telemetry import configure_logging, get_logger

EXIT_FAILED = 70
"""EX_SOFTWARE of sysexits.h: the model or the device failed, and with it the process."""

log = get_logger()


@click.command(hidden=True)
@click.option("--socket", type=click.Path(path_type=Path), required=True, help="Where workers connect.")
@click.option("--workers", type=click.IntRange(min=1), required=True, help="How many share the capacity.")
@click.option("--parent", type=int, hidden=True, help="Process to end with.")
@click.pass_obj
def host(settings: Settings, socket: Path, workers: int, parent: int | None) -> None:
    """Run the engine host alone."""
    if parent is not None:
        end_with_parent(parent)
    configure_logging(settings.log, process="host")
    codec = require_gepard(settings)
    device = _only_device(settings.gepard.device)
    from workers.engines.gepard_starters import rendered_starters  # noqa: PLC0415 - needs PyTorch
    from workers.engines.hibari import HibariEngine  # noqa: PLC0415 - loads the embedded engine's libraries
    from workers.host.host import EngineHost  # noqa: PLC0415 - needs PyTorch
    from workers.host.model import HostOptions, load_model  # noqa: PLC0415 - needs PyTorch

    options = settings.gepard
    cache = settings.data_path() / "gepard"
    own_clips = settings.gepard_starter_clips_path()
    clips = own_clips or asyncio.run(rendered_starters(HibariEngine(num_threads=1), cache / "starter-clips"))
    capacity = settings.worker.capacity
    # Outside the event loop, so that a signal ends it at once.
    model = load_model(
        HostOptions(
            checkpoint=settings.gepard_checkpoint_path(),
            codec=codec,
            cache=cache,
            starter_clips=clips,
            own_clips=own_clips is not None,
            backend=options.backend,
            device=device,
            dtype=options.dtype,
            rope_freq_dtype=options.rope_freq_dtype,
            rows=options.rows,
            capacity=None if capacity is None else capacity * workers,
            num_workers=workers,
            num_threads=settings.worker.threads,
        )
    )

    async def serve() -> None:
        engine_host = EngineHost(model, num_workers=workers, step_timeout_s=options.step_timeout_s, on_failure=_end)
        serving = asyncio.create_task(engine_host.serve(socket))
        for signum in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(signum, serving.cancel)
        await asyncio.wait([serving])
        if not serving.cancelled():
            serving.result()

    try:
        uvloop.run(serve())
    except OSError as error:
        raise SettingsError(f"the engine host cannot listen at {socket}: {error.strerror}") from error
    log.info("host_stopped")


def _only_device(name: str) -> str | None:
    """Let the process see the GPU of that name alone: vLLM takes the first it sees. Returns its name from then on.

    Before PyTorch looks for GPUs. None: whichever there is.
    """
    kind, _, number = name.partition(":")
    if name == "auto" or kind != "cuda" or not number:
        return None if name == "auto" else name
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    gpus = visible.split(",") if visible else []
    if not number.isdecimal() or (gpus and int(number) >= len(gpus)):
        there = f"; CUDA_VISIBLE_DEVICES has {len(gpus)}" if gpus else ""
        raise SettingsError(f"gepard.device {name}: GPUs are numbered from cuda:0{there}")
    os.environ["CUDA_VISIBLE_DEVICES"] = gpus[int(number)] if gpus else number
    return "cuda"


def _end(error: Exception) -> None:
    """The model or its device cannot be trusted any more: nothing is tidied up that would need it."""
    log.critical("host_failed", error=type(error).__name__, exc_info=error)
    os._exit(EXIT_FAILED)
