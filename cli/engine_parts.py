"""What serves the engine of the settings: a worker, or an engine host and several workers."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from cli.child import Part
from cli.data_folder import make_folder
from cli.gepard import num_workers
from cli.parts import Probe, host_part, worker_part
from cli.socket_folder import socket_folder
from shared.settings import Settings

# The first start of gepard on a slow CPU makes voices of 14 clips, some ten seconds each.
START_TIMEOUT_S = {"hibari": 120.0, "gepard": 900.0}


@contextlib.contextmanager
def engine_parts(settings: Settings, redis_url: str, config: Path | None, ask: Probe) -> Iterator[list[list[Part]]]:
    """Groups of parts in the order of their start; each is stopped as a whole before the one before it.

    The socket of a host is there while the context is open. Raises SettingsError when it cannot be.
    """
    if settings.worker.engine != "gepard":
        yield [[worker_part(settings, redis_url, config, ask)]]
        return
    count = num_workers(settings)
    folder = settings.data_path() / "run"
    make_folder(folder)
    # Several of them may share a data folder, one for each GPU.
    name = f"host-{os.getpid()}.sock"
    with socket_folder(folder, name) as parent:
        path = parent / name
        names = ["worker"] if count == 1 else [f"worker-{number}" for number in range(1, count + 1)]
        try:
            yield [
                [host_part(settings, redis_url, config, path, num_workers=count)],
                [worker_part(settings, redis_url, config, ask, name=name, host=path) for name in names],
            ]
        finally:
            path.unlink(missing_ok=True)
