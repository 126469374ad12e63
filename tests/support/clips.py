"""Uploads for tests, friendly and hostile, made in memory."""

import io
import struct
import zlib
from fractions import Fraction

import av
import numpy as np
from av.stream import Disposition
from numpy.typing import NDArray

from shared.formats import wav_header
from tests.support.signals import Samples, voice_like

RATE_HZ = 24000


def speech(seconds: float = 3.0, pitch_hz: float = 120.0, rate_hz: int = RATE_HZ) -> Samples:
    """What counts as speech: voiced throughout."""
    return voice_like(pitch_hz, rate_hz, seconds)


def int16(samples: Samples) -> bytes:
    return np.clip(np.rint(samples * 32767), -32768, 32767).astype("<i2").tobytes()


def wav(samples: Samples, rate_hz: int = RATE_HZ, *, channels: int = 1) -> bytes:
    """16-bit wav with exact sizes; all channels alike."""
    return wav_of(np.repeat(np.frombuffer(int16(samples), "<i2"), channels).tobytes(), rate_hz, channels=channels)


def wav_of(data: bytes, rate_hz: int = RATE_HZ, *, channels: int = 1, bits: int = 16, kind: int = 1) -> bytes:
    """A wav of any sample format. `kind`: 1 integer, 3 float."""
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", kind, channels, rate_hz, rate_hz * block, block, bits)
    size = struct.pack("<I", 36 + len(data))
    return b"RIFF" + size + b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(data)) + data


def streamed_wav(samples: Samples, rate_hz: int = RATE_HZ) -> bytes:
    """As the gateway streams it: sizes 0xFFFFFFFF."""
    return wav_header(rate_hz) + int16(samples)


def coded(
    samples: Samples,
    container: str,
    codec: str,
    *,
    rate_hz: int = RATE_HZ,
    layout: str = "mono",
    picture: bytes | None = None,
    video: bool = False,
    options: dict[str, str] | None = None,
    codec_options: dict[str, str] | None = None,
) -> bytes:
    """Any format that FFmpeg writes. `picture`: a PNG attached as the cover. `video`: moving pictures beside it."""
    sink = io.BytesIO()
    with av.open(sink, "w", format=container, container_options=options or {}) as output:
        stream = output.add_stream(codec, rate=rate_hz, layout=layout, options=codec_options or {})
        cover = None
        if picture is not None:
            cover = output.add_stream("png", rate=1)
            cover.width = cover.height = 16
            cover.pix_fmt = "rgb24"
            cover.disposition = Disposition.attached_pic
        film = output.add_stream("mpeg4", rate=10) if video else None
        output.start_encoding()
        if film is not None:
            for number in range(10):
                output.mux(film.encode(_video_frame(film, number)))
            output.mux(film.encode(None))
        if cover is not None:
            packet = av.Packet(picture)
            packet.stream, packet.pts, packet.dts, packet.is_keyframe = cover, 0, 0, True
            output.mux(packet)
        resampler = av.AudioResampler(stream.format, stream.layout, rate_hz, stream.codec_context.frame_size or None)
        frame = av.AudioFrame.from_ndarray(samples[None], format="flt", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = rate_hz, 0, Fraction(1, rate_hz)
        for part in [*resampler.resample(frame), *resampler.resample(None)]:
            output.mux(stream.encode(part))
        output.mux(stream.encode(None))
    return sink.getvalue()


def _video_frame(stream: av.VideoStream, number: int) -> av.VideoFrame:
    frame = av.VideoFrame(stream.width, stream.height, "yuv420p")
    frame.pts, frame.time_base = number, Fraction(1, 10)
    return frame


def png(width: int, height: int, *, broken: bool = False) -> bytes:
    """A black picture; `broken`: its pixels are noise."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    row = bytes(1 + 3 * width)
    pixels = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    if broken:
        pixels = np.random.default_rng(0).bytes(len(pixels))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def float_wav(samples: NDArray[np.float32], rate_hz: int = RATE_HZ) -> bytes:
    """32-bit float wav."""
    return wav_of(samples.astype("<f4").tobytes(), rate_hz, bits=32, kind=3)


def endless_opus(seconds: int) -> bytes:
    """Silence in Ogg Opus, coded once and repeated: two hours are 1.2 MB."""
    source = av.open(io.BytesIO(coded(np.zeros(48000, np.float32), "ogg", "libopus", rate_hz=48000)))
    packet_s = 0.02
    silence = bytes(next(packet for packet in source.demux(audio=0) if packet.pts))
    sink = io.BytesIO()
    with av.open(sink, "w", format="ogg") as output:
        stream = output.add_stream_from_template(source.streams.audio[0])
        for number in range(round(seconds / packet_s)):
            packet = av.Packet(silence)
            packet.stream, packet.time_base = stream, Fraction(1, 48000)
            packet.pts = packet.dts = round(number * packet_s * 48000)
            packet.duration = round(packet_s * 48000)
            output.mux(packet)
    source.close()
    return sink.getvalue()
