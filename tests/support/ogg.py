"""Ogg pages, read by hand (RFC 3533)."""

import struct
from dataclasses import dataclass

END_OF_STREAM = 4


@dataclass(frozen=True)
class Page:
    """One page. `flags`: 2 begins and 4 ends the stream. `granule`: for Opus, 48 kHz samples so far."""

    flags: int
    granule: int
    serial: int
    sequence: int
    payload: bytes


def ogg_pages(data: bytes) -> list[Page]:
    """All pages; they must follow one another without a gap."""
    pages, at = [], 0
    while at < len(data):
        magic, version, flags, granule, serial, sequence, _crc, num_lacing = struct.unpack_from("<4sBBqIIIB", data, at)
        assert magic == b"OggS"
        assert version == 0
        lacing = data[at + 27 : at + 27 + num_lacing]
        start = at + 27 + num_lacing
        at = start + sum(lacing)
        pages.append(Page(flags, granule, serial, sequence, data[start:at]))
    return pages


def opus_head(page: Page) -> tuple[int, int, int]:
    """Channels, pre-skip in 48 kHz samples and input rate of the first page (RFC 7845, section 5.1)."""
    assert page.payload[:8] == b"OpusHead"
    channels, pre_skip, input_hz = struct.unpack_from("<BHI", page.payload, 9)
    return channels, pre_skip, input_hz
