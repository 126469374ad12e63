"""Bit rates, in bits per second, of the formats that have one: what each sample rate allows."""

from bisect import bisect_right

import msgspec

_MPEG1 = tuple(1000 * k for k in (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320))
_MPEG2 = tuple(1000 * k for k in (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160))
# The standard gives MPEG-2.5 the table of MPEG-2; LAME ends it here.
_MPEG25 = tuple(rate for rate in _MPEG2 if rate <= 64000)  # noqa: PLR2004

# libopus goes to 510 kbit/s in stereo; FFmpeg refuses more than this for one channel.
_OPUS = range(6000, 256000 + 1)

_AAC_LOWEST = 16000
"""FFmpeg's encoder does not get far below, whatever is asked."""

_AAC_BITS_PER_SAMPLE = 6
"""A frame of 1024 samples of one channel has 6144 bits at most (ISO/IEC 14496-3)."""


class BitRates(msgspec.Struct, frozen=True, kw_only=True):
    """Bit rates of one format at one sample rate. `allowed` rises: single values or a whole range."""

    default: int
    allowed: tuple[int, ...] | range

    def at_most(self, bit_rate: int) -> int:
        """The highest allowed one that is not above `bit_rate`, else the lowest."""
        return self.allowed[max(0, bisect_right(self.allowed, bit_rate) - 1)]

    def __str__(self) -> str:
        """As error messages list them."""
        if isinstance(self.allowed, range):
            return f"{self.allowed[0]} to {self.allowed[-1]}"
        return ", ".join(map(str, self.allowed))


def mp3_bit_rates(sample_rate_hz: int) -> BitRates:
    """MPEG-1 audio has sample rates from 32 kHz, MPEG-2 from 16 kHz, MPEG-2.5 those below."""
    below_mpeg1 = _MPEG2 if sample_rate_hz >= 16000 else _MPEG25  # noqa: PLR2004
    allowed = _MPEG1 if sample_rate_hz >= 32000 else below_mpeg1  # noqa: PLR2004
    return BitRates(default=_transparent(sample_rate_hz), allowed=allowed)


def aac_bit_rates(sample_rate_hz: int) -> BitRates:
    """Bounded by the size of a frame."""
    highest = _AAC_BITS_PER_SAMPLE * sample_rate_hz
    return BitRates(default=_transparent(sample_rate_hz), allowed=range(_AAC_LOWEST, highest + 1))


def opus_bit_rates(sample_rate_hz: int) -> BitRates:
    """The same at every sample rate."""
    return BitRates(default=48000 if sample_rate_hz >= 24000 else 32000, allowed=_OPUS)  # noqa: PLR2004


def _transparent(sample_rate_hz: int) -> int:
    """Bits per second at which mono speech has no audible loss in mp3 and aac."""
    if sample_rate_hz <= 12000:  # noqa: PLR2004
        return 32000
    if sample_rate_hz <= 16000:  # noqa: PLR2004
        return 48000
    return 64000 if sample_rate_hz <= 32000 else 96000  # noqa: PLR2004
