"""Where `gepard say` puts the audio, and what it shows meanwhile."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import click
from rich.console import Console
from rich.progress import BarColumn, FileSizeColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

STDOUT = "-"


@contextlib.contextmanager
def sink(output: str) -> Iterator[BinaryIO]:
    """A place for the audio; a file appears under its name only when it is whole.

    Raises ClickException when it cannot be written.
    """
    name = "the standard output" if output == STDOUT else output
    try:
        with _standard_output() if output == STDOUT else _file(Path(output)) as target:
            yield target
    except OSError as error:
        raise click.ClickException(f"cannot write {name}: {error.strerror or error}") from error


@contextlib.contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    if sys.stdout.isatty():
        raise click.ClickException("audio would fill the terminal: write it to a file, or pipe it to a player")
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Whoever read it has enough. What is left in the buffer goes nowhere when Python flushes it at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(1) from None


@contextlib.contextmanager
def _file(path: Path) -> Iterator[BinaryIO]:
    target = path.resolve()
    if target.exists() and not target.is_file():
        # A device or a pipe: it is written to, never replaced.
        with target.open("wb") as file:
            yield file
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def progress(label: str) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, so that the standard output stays audio; nothing where that is no terminal.

    Yields what to call with the number of bytes that came.
    """
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        FileSizeColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task(label, total=None)
        yield lambda num_bytes: bar.advance(task, num_bytes)
        bar.update(task, total=bar.tasks[task].completed)
