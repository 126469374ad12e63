"""From an engine's samples to a reply's bytes: tempo, sample rate, encoder."""

from itertools import chain

from shared.formats import AudioFormat
from workers.audio.encode import make_encoder
from workers.audio.resample import Resampler
from workers.audio.tempo import Tempo
from workers.engines.base import Samples


class ReplyChain:
    """Makes the bytes of one reply. Blocking, a few per cent of real time; not thread-safe.

    The packets do not depend on how the samples are cut into calls, nor on the process that makes them. May
    be dropped without `finish`.
    """

    def __init__(
        self,
        *,
        engine_rate_hz: int,
        audio_format: AudioFormat,
        sample_rate_hz: int,
        speed: float,
        bit_rate: int | None = None,
    ) -> None:
        self._engine_rate_hz = engine_rate_hz
        self._speed = speed
        # Tempo first: its search looks for pitch periods, which the engine's own rate resolves best.
        self._tempo = Tempo(engine_rate_hz, speed)
        self._resampler = Resampler(engine_rate_hz, sample_rate_hz)
        self._encoder = make_encoder(audio_format, sample_rate_hz, bit_rate)

    def feed(self, samples: Samples) -> list[bytes]:
        """Take samples [n] at the engine's rate; return the packets that are complete."""
        return self._encoder.encode(self._resampler.process(self._tempo.process(samples)))

    def feed_unstretched(self, samples: Samples) -> list[bytes]:
        """Like `feed`, for samples that last as long as they are, whatever the speed.

        What was fed before ends here for the tempo, and what comes after starts anew: silence fits in between.
        """
        stretched = self._tempo.flush()
        self._tempo = Tempo(self._engine_rate_hz, self._speed)
        return list(chain(*(self._encoder.encode(self._resampler.process(part)) for part in (stretched, samples))))

    def finish(self) -> list[bytes]:
        """Return the last packets; nothing may be fed afterwards."""
        stretched = self._tempo.flush()
        parts = (self._resampler.process(stretched), self._resampler.flush())
        return list(chain(*(self._encoder.encode(part) for part in parts), self._encoder.close()))
