"""Foreign bytes -> mono samples. Runs only in the intake process: a decoder may crash here."""

import io
from collections.abc import Iterator

import av
import numpy as np
import soxr
from av.container import InputContainer
from numpy.typing import NDArray

from voices.intake.order import CLIP_RATE_HZ

Samples = NDArray[np.float32]

_CONTAINERS = "wav,mp3,mov,ogg,flac,matroska,aac"
"""FFmpeg's names of what may be sent (mov reads m4a, matroska webm). Nothing that names other files: no playlist."""

_CODECS = frozenset(
    {"mp3", "mp3float", "aac", "opus", "libopus", "vorbis", "flac", "alac", "pcm_u8", "pcm_alaw", "pcm_mulaw"}
    | {f"pcm_{kind}{order}" for kind in ("s16", "s24", "s32", "f32", "f64") for order in ("le", "be")}
)
"""No picture decoder among them: a cover is neither probed nor opened."""

_OPEN_OPTIONS = {
    "format_whitelist": _CONTAINERS,
    "codec_whitelist": ",".join(sorted(_CODECS)),
    "protocol_whitelist": "",
}

_OFFSET = {"u1": 128.0}
_FULL_SCALE = {"u1": 128.0, "i2": 2.0**15, "i4": 2.0**31, "f4": 1.0, "f8": 1.0}


class NotAudio(Exception):
    """There is no audio of a known kind in these bytes."""


class TooLong(Exception):
    """More audio than may be decoded."""


def decode(data: bytes, *, max_s: float) -> Samples:
    """The audio in `data`, mono at CLIP_RATE_HZ in -1..1; what cannot be read in its middle is left out.

    Channels are averaged. Samples that are no number are silence. Raises NotAudio, and TooLong beyond `max_s`.
    """
    max_samples = int(max_s * CLIP_RATE_HZ)
    parts: list[Samples] = []
    num_samples = 0
    for part in _resampled(_mono(data)):
        parts.append(part)
        num_samples += len(part)
        if num_samples > max_samples:
            raise TooLong
    if not num_samples:
        raise NotAudio
    return np.concatenate(parts)


def _mono(data: bytes) -> Iterator[tuple[int, Samples]]:
    """Rate and samples of each decoded frame."""
    try:
        # Tags in a foreign character set must not stop a clip.
        container = av.open(io.BytesIO(data), "r", options=_OPEN_OPTIONS, metadata_errors="ignore")
    except (av.FFmpegError, ValueError) as error:
        raise NotAudio from error
    with container:
        stream = container.streams.best("audio")
        if not isinstance(stream, av.AudioStream) or stream.codec_context is None:
            raise NotAudio
        if stream.codec_context.codec.name not in _CODECS:
            raise NotAudio
        stream.codec_context.thread_count = 1
        for packet in _packets(container, stream):
            try:
                frames = packet.decode()
            except av.FFmpegError:
                continue
            for frame in frames:
                if frame.samples:
                    yield frame.sample_rate, _average(frame)


def _packets(container: InputContainer, stream: av.AudioStream) -> Iterator["av.Packet[av.AudioStream]"]:
    """The stream's packets, to the end or to where the container breaks off."""
    try:
        yield from container.demux(stream)
    except av.FFmpegError:
        return


def _average(frame: av.AudioFrame) -> Samples:
    """Samples [n] of a frame in any format."""
    array = frame.to_ndarray()
    channels = array if frame.format.is_planar else array.reshape(frame.samples, -1).T
    kind = array.dtype.str[1:]
    mono = (channels.mean(axis=0, dtype=np.float64) - _OFFSET.get(kind, 0.0)) / _FULL_SCALE[kind]
    clean: Samples = np.clip(np.nan_to_num(mono, posinf=1.0, neginf=-1.0), -1.0, 1.0).astype(np.float32)
    return clean


def _resampled(blocks: Iterator[tuple[int, Samples]]) -> Iterator[Samples]:
    """Bring blocks to CLIP_RATE_HZ; the rate may change on the way, as in chained Ogg."""
    resampler: soxr.ResampleStream | None = None
    current_hz = CLIP_RATE_HZ
    for rate_hz, samples in blocks:
        if rate_hz != current_hz:
            yield from _flush(resampler)
            current_hz = rate_hz
            resampler = soxr.ResampleStream(rate_hz, CLIP_RATE_HZ, 1) if rate_hz != CLIP_RATE_HZ else None
        yield samples if resampler is None else resampler.resample_chunk(samples)
    yield from _flush(resampler)


def _flush(resampler: soxr.ResampleStream | None) -> Iterator[Samples]:
    if resampler is not None:
        yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)
