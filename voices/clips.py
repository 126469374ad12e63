"""Reference clips: an upload becomes a clip, or a plain reason why not.

Foreign bytes are decoded in a process of their own (voices/intake), a fresh one for each clip: whatever a file
does to a decoder ends with that process. Starting it takes 0.3 s of CPU, which an upload can afford; a
process kept for the next clip would be one that has read the last.
"""

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import msgspec
import numpy as np
from numpy.typing import NDArray

from shared.clip import MAX_CLIP_BYTES, Clip
from shared.errors import ClipRefused, IntakeBusy
from shared.settings import ClipsSettings
from shared.telemetry import get_logger
from voices.clip_store import ClipStore
from voices.intake.flac import from_flac
from voices.intake.order import CLIP_RATE_HZ, MIN_SPEECH_S, Order, Refused, Report, Taken

_COMMAND = (sys.executable, "-P", "-m", "voices.intake.process")
_ROOT = Path(__file__).parents[1]

_SAMPLE_BYTES = 4  # in Clip.to_bytes
MAX_STORED_S = MAX_CLIP_BYTES // (_SAMPLE_BYTES * CLIP_RATE_HZ)
"""Whole seconds of a clip that reach a worker through Redis: the longest a clip can be, whatever is configured."""

_MAX_PCM_BYTES = 2 * MAX_STORED_S * CLIP_RATE_HZ
_MAX_REPORT_BYTES = 2 * MAX_CLIP_BYTES

_FORMATS = "wav, mp3, m4a, aac, ogg, opus, flac or webm"

_report_decoder: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)
log = get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenClip:
    """A clip ready for use, and what was done to the upload.

    `flac`: the clip as it is stored, under `clip.sha256`. `source_s`: length of the upload; `start_s`: where
    in it the clip begins; `speech_s`: how much of the clip is speech.
    """

    clip: Clip
    flac: bytes
    source_s: float
    start_s: float
    speech_s: float

    @property
    def is_cut(self) -> bool:
        """Whether only a part of the upload was kept."""
        return self.clip.duration_s < self.source_s

    @property
    def note(self) -> str | None:
        """What the uploader should know; None if all was kept."""
        if not self.is_cut:
            return None
        return (
            f"Of {self.source_s:.1f} s, {self.clip.duration_s:.1f} s with the most speech were kept, "
            f"from {self.start_s:.1f} s on."
        )


class ClipIntake:
    """Takes in uploads, at most `max_decoders` at a time."""

    def __init__(self, settings: ClipsSettings) -> None:
        self._settings = settings
        self._slots = asyncio.Semaphore(settings.max_decoders)
        self._num_waiting = 0

    async def take(self, data: bytes, *, max_seconds: float | None) -> TakenClip:
        """Decode, check and cut an upload. `max_seconds`: the longest clip to keep; None or 0 keeps all of it.

        Raises ClipRefused, and IntakeBusy while `max_waiting` other uploads wait. A cancel ends the process.
        """
        if len(data) > self._settings.max_upload_bytes:
            raise ClipRefused(
                "clip_too_large",
                f"The clip has {len(data)} bytes; at most {self._settings.max_upload_bytes} are accepted.",
            )
        if self._slots.locked() and self._num_waiting >= self._settings.max_waiting:
            raise IntakeBusy("too many clips are being taken in")
        self._num_waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._num_waiting -= 1
        try:
            raw = await _run_process(data, self._order(max_seconds), self._settings.decode_timeout_s)
        finally:
            self._slots.release()
        return await asyncio.to_thread(_read_report, raw)

    def _order(self, max_seconds: float | None) -> Order:
        return Order(
            max_s=max_seconds or None,
            max_stored_s=MAX_STORED_S,
            max_decoded_s=self._settings.max_decoded_s,
            max_memory_bytes=self._settings.decode_memory_bytes,
            max_cpu_s=int(self._settings.decode_timeout_s) + 1,
        )


async def load_clip(store: ClipStore, sha256: str) -> Clip | None:
    """A stored clip; None if it is not there. Raises ValueError if what is there is another clip."""
    flac = await store.get(sha256)
    return None if flac is None else await asyncio.to_thread(_from_store, flac, sha256)


def _from_store(flac: bytes, sha256: str) -> Clip:
    integers, rate_hz = from_flac(flac)
    clip = _clip_of(integers, rate_hz)
    if clip.sha256 != sha256:
        raise ValueError(f"the stored clip {sha256} is damaged")
    return clip


def _clip_of(integers: NDArray[np.int16], rate_hz: int) -> Clip:
    return Clip(samples=integers.astype(np.float32) / np.float32(32768), rate_hz=rate_hz)


async def _run_process(data: bytes, order: Order, timeout_s: float) -> bytes:
    """The process's output, at most one byte more than allowed; empty when it overran its time."""
    process = await asyncio.create_subprocess_exec(
        *_COMMAND,
        msgspec.json.encode(order).decode(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # What decoders print may quote the file.
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        # Nothing of ours: no keys, no passwords. One thread of BLAS does not reserve memory for the others.
        env={"PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    output = b""
    stdin, stdout = process.stdin, process.stdout
    try:
        async with asyncio.timeout(timeout_s):
            output = await _converse(data, stdin, stdout)
            await process.wait()
    except TimeoutError:
        output = b""
    finally:
        # Even if this task is cancelled twice: it takes no time.
        await asyncio.shield(_end(process))
    if process.returncode != 0:
        log.warning("clip_process_failed", returncode=process.returncode, upload_bytes=len(data))
        return b""
    return output


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill and reap; what is left in the pipe is read, since asyncio closes it at its end only."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    if process.stdin is not None:
        process.stdin.close()
    while process.stdout is not None and await process.stdout.read(1 << 16):
        pass
    await process.wait()


async def _converse(data: bytes, stdin: asyncio.StreamWriter | None, stdout: asyncio.StreamReader | None) -> bytes:
    """Hand the clip over, then read to the end, or to one byte too many."""
    if stdin is None or stdout is None:
        raise RuntimeError("the process was started without pipes")
    # A process that ends early does not read everything.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(data)
        await stdin.drain()
        stdin.close()
    output = bytearray()
    while len(output) <= _MAX_REPORT_BYTES and (part := await stdout.read(1 << 16)):
        output += part
    return bytes(output)


def _read_report(raw: bytes) -> TakenClip:
    report: Report = Refused(code="clip_undecodable")
    with contextlib.suppress(msgspec.MsgspecError):
        report = _report_decoder.decode(raw)
    match report:
        case Taken(pcm=pcm) if 0 < len(pcm) <= _MAX_PCM_BYTES and len(pcm) % 2 == 0:
            return TakenClip(
                clip=_clip_of(np.frombuffer(pcm, "<i2"), CLIP_RATE_HZ),
                flac=report.flac,
                source_s=report.source_s,
                start_s=report.start_s,
                speech_s=report.speech_s,
            )
        case Refused():
            raise ClipRefused(report.code, _message(report))
    # A decoder that has been taken over can say anything.
    raise ClipRefused("clip_undecodable", _message(Refused(code="clip_undecodable")))


def _message(refused: Refused) -> str:
    match refused.code:
        case "clip_not_audio":
            return f"The file holds no audio that can be read; send {_FORMATS}."
        case "clip_too_long":
            return f"The clip is longer than {refused.seconds:.0f} s; send a shorter one."
        case "clip_silent":
            return "The clip is silent."
        case "clip_too_short":
            return f"The clip holds {refused.seconds:.1f} s of speech; at least {MIN_SPEECH_S:.0f} s is needed."
        case "clip_clipped":
            return "The clip is overdriven throughout; record it again at a lower level."
        case "clip_undecodable":
            return "The clip could not be decoded within the limits on time and memory; send it as wav or flac."
    assert_never(refused.code)
