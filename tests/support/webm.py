"""WebM files, read by hand (RFC 8794, RFC 9559): the elements that a live audio stream has."""

from collections.abc import Iterator
from dataclasses import dataclass

EBML, SEGMENT, SEEK_HEAD, VOID, INFO, TRACKS = 0x1A45DFA3, 0x18538067, 0x114D9B74, 0xEC, 0x1549A966, 0x1654AE6B
CLUSTER, CUES, TIMESTAMP, SIMPLE_BLOCK = 0x1F43B675, 0x1C53BB6B, 0xE7, 0xA3
BLOCK_GROUP, BLOCK, DISCARD_PADDING = 0xA0, 0xA1, 0x75A2
TRACK_ENTRY, AUDIO, CHANNELS, CODEC_ID, CODEC_PRIVATE, CODEC_DELAY = 0xAE, 0xE1, 0x9F, 0x86, 0x63A2, 0x56AA
DURATION, DOC_TYPE = 0x4489, 0x4282

_MASTERS = {EBML, INFO, TRACKS, TRACK_ENTRY, AUDIO, CLUSTER, BLOCK_GROUP}
_MS = 1_000_000
"""Nanoseconds; timestamps are in milliseconds unless Info says otherwise."""


@dataclass(frozen=True)
class Element:
    """An element with its payload; `data` is all of it. `size` None: unknown, the payload follows as siblings."""

    id: int
    size: int | None
    payload: bytes
    data: bytes

    def children(self) -> list["Element"]:
        """The elements inside, down to the leaves, in order."""
        inner = list(elements(self.payload)) if self.id in _MASTERS else []
        return [part for child in inner for part in (child, *child.children())]

    def first(self, id: int) -> bytes:  # noqa: A002
        """The payload of the first such element inside."""
        return next(child.payload for child in self.children() if child.id == id)


def elements(data: bytes) -> Iterator[Element]:
    """Elements one after another, without a gap."""
    at = 0
    while at < len(data):
        start, id_length = at, 9 - data[at].bit_length()
        element_id = int.from_bytes(data[at : at + id_length])
        at += id_length
        size_length = 9 - data[at].bit_length()
        size: int | None = int.from_bytes(data[at : at + size_length]) & ((1 << 7 * size_length) - 1)
        at += size_length
        if size == (1 << 7 * size_length) - 1:
            size = None
        end = at + (size or 0)
        assert end <= len(data)
        yield Element(element_id, size, data[at:end], data[start:end])
        at = end


def head_and_clusters(data: bytes) -> tuple[bytes, list[bytes]]:
    """What a player needs first, and the clusters that it may begin or end with."""
    parts = list(elements(data))
    clusters = [part.data for part in parts if part.id == CLUSTER]
    return data[: len(data) - sum(map(len, clusters))], clusters


def opus_seconds(data: bytes) -> float:
    """How long it sounds: 20 ms packets less the codec's delay and the padding of the last one."""
    parts = list(elements(data))
    delay_ns = int.from_bytes(next(part for part in parts if part.id == TRACKS).first(CODEC_DELAY))
    inside = [child for part in parts if part.id == CLUSTER for child in part.children()]
    num_blocks = sum(child.id in (SIMPLE_BLOCK, BLOCK) for child in inside)
    padding_ns = sum(int.from_bytes(child.payload, signed=True) for child in inside if child.id == DISCARD_PADDING)
    return (num_blocks * 20 * _MS - delay_ns - padding_ns) / 1e9
