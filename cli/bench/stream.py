"""One request of a benchmark: when its bytes came, and what that means as audio."""

from dataclasses import dataclass, field

from cli.bench.audio_clock import BARE_SAMPLE_BYTES, BareClock, EncodedClock, NotAudio
from gateway.underrun import Player
from shared.formats import AudioFormat


@dataclass(slots=True, kw_only=True)
class Stream:
    """What the client saw. Times are `time.perf_counter` seconds.

    `due`: when the request was to be sent; latencies count from there, so that a client that is late itself
    makes nothing look faster. `rate_hz`: of bare samples. `arrivals`: time and bytes so far, at each piece of
    the body, which itself is kept only where it is needed. `error` empty: the reply came to its proper end.
    """

    text: str
    due: float
    audio_format: AudioFormat = AudioFormat.PCM
    rate_hz: int = 24000
    end: float = 0.0
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A stream that came to its end, as a listener has it.

    `heard`: when audio came and how many seconds of it. `total_s`: from due to the last byte.
    """

    first_audio_s: float
    total_s: float
    audio_s: float
    deficit_s: float
    underran: bool
    heard: tuple[tuple[float, float], ...]

    @property
    def real_time_factor(self) -> float:
        """Seconds until all was there, by seconds of audio."""
        return self.total_s / self.audio_s


def measure(stream: Stream) -> Measured | None:
    """The figures of a stream; None, with its `error` set, for one that failed or holds no audio."""
    if stream.error:
        return None
    try:
        heard = _heard(stream)
    except NotAudio:
        stream.error = "not_audio"
        return None
    if not heard:
        stream.error = "no_audio"
        return None
    player = Player()
    for at_s, audio_s in heard:
        player.receive(at_s, audio_s)
    return Measured(
        first_audio_s=heard[0][0] - stream.due,
        total_s=stream.end - stream.due,
        audio_s=player.audio_s,
        deficit_s=player.worst_deficit_s,
        underran=player.underran,
        heard=heard,
    )


def _heard(stream: Stream) -> tuple[tuple[float, float], ...]:
    """Arrivals that brought audio: time, seconds of audio."""
    if stream.audio_format in BARE_SAMPLE_BYTES:
        clock: BareClock | EncodedClock = BareClock(stream.audio_format, stream.rate_hz)
    else:
        clock = EncodedClock(bytes(stream.body))
    heard, known_s = [], 0.0
    for at_s, num_bytes in stream.arrivals:
        now_s = clock.seconds(num_bytes)
        if now_s > known_s:
            heard.append((at_s, now_s - known_s))
            known_s = now_s
    return tuple(heard)
