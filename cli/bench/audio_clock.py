"""How much audio can be played when so many bytes of a reply are there?"""

import bisect
import io

import av

from shared.formats import AudioFormat

BARE_SAMPLE_BYTES = {AudioFormat.PCM: 2, AudioFormat.ULAW: 1, AudioFormat.ALAW: 1}
"""Formats without a header or packets: the size of a sample tells the time."""


class NotAudio(Exception):
    """The bytes are no audio file."""


class BareClock:
    """Bare mono samples of a format in BARE_SAMPLE_BYTES."""

    def __init__(self, audio_format: AudioFormat, rate_hz: int) -> None:
        self._bytes_per_s = BARE_SAMPLE_BYTES[audio_format] * rate_hz

    def seconds(self, num_bytes: int) -> float:
        """Seconds of audio in the first `num_bytes` bytes."""
        return num_bytes / self._bytes_per_s


class EncodedClock:
    """A whole file of any other format, by the positions of its packets; headers hold no audio."""

    def __init__(self, data: bytes) -> None:
        """Raises NotAudio."""
        packets, self._can_split = _packets(data)
        self._starts = [position for position, _ in packets]
        self._before_s = [0.0]
        for _, duration_s in packets:
            self._before_s.append(self._before_s[-1] + duration_s)
        self._ends = _ends(self._starts, len(data))

    def seconds(self, num_bytes: int) -> float:
        """Seconds of audio in the first `num_bytes` bytes; of a compressed packet, all or nothing."""
        complete = bisect.bisect_right(self._ends, num_bytes)
        seconds = self._before_s[complete]
        if self._can_split and complete < len(self._ends) and num_bytes > (start := self._starts[complete]):
            share = (num_bytes - start) / (self._ends[complete] - start)
            seconds += share * (self._before_s[complete + 1] - seconds)
        return seconds


def _packets(data: bytes) -> tuple[list[tuple[int, float]], bool]:
    """Position and seconds of each packet, and whether a part of a packet can be played (wav)."""
    try:
        with av.open(io.BytesIO(data), "r") as container:
            stream = container.streams.audio[0]
            packets = [
                (packet.pos, float(packet.duration * packet.time_base))
                for packet in container.demux(stream)
                if packet.pos is not None and packet.duration and packet.time_base
            ]
            return packets, stream.codec_context.name.startswith("pcm_")
    except (av.FFmpegError, IndexError) as error:
        raise NotAudio(str(error)) from error


def _ends(starts: list[int], size: int) -> list[int]:
    """A packet ends where the next one begins; those of one Ogg page share its start, and so its end."""
    ends, end, following = [], size, size
    for start in reversed(starts):
        if start < following:
            end, following = following, start
        ends.append(end)
    return ends[::-1]
