"""What the gateway and the intake process say to each other. msgpack; both ends check what they read."""

from typing import Literal

import msgspec

CLIP_RATE_HZ = 22050
"""Rate of every stored clip: what Gepard's codec listens at, so that a clip is resampled once."""

MIN_SPEECH_S = 1.0
"""Less speech than this makes no voice."""

RefusalCode = Literal[
    "clip_not_audio", "clip_too_long", "clip_silent", "clip_too_short", "clip_clipped", "clip_undecodable"
]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to do. `max_s`: cut the clip to this; None keeps all of it. `max_stored_s`: the most that can be kept.

    `max_decoded_s`: audio that is decoded at all. `max_memory_bytes` and `max_cpu_s` bound the process.
    """

    max_s: float | None
    max_stored_s: float
    max_decoded_s: float
    max_memory_bytes: int
    max_cpu_s: int


class Taken(msgspec.Struct, tag="taken", frozen=True, kw_only=True):
    """A usable clip. `pcm`: 16-bit little-endian samples at CLIP_RATE_HZ; `flac`: the same, coded."""

    pcm: bytes
    flac: bytes
    source_s: float
    start_s: float
    speech_s: float


class Refused(msgspec.Struct, tag="refused", frozen=True, kw_only=True):
    """No clip, and why. `seconds`: the audio's length, or its speech for `clip_too_short`."""

    code: RefusalCode
    seconds: float = 0.0


Report = Taken | Refused
