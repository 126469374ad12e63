"""What a worker and the engine host say to each other: msgpack messages, each after its length.

The worker asks (Speak, Cancel, Profile) under numbers of its own; the host answers under the same numbers. One
message carries the sound of many streams: what a step of the codec made for one worker.
"""

import struct
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from shared.clip import MAX_CLIP_BYTES
from shared.contracts import EngineInfo, HostFigures, Sampling, Seed
from shared.errors import GepardError

VERSION = 1
"""Of the messages below; host and worker of different versions part at once."""

MAX_REQUEST_BYTES = 8 << 20
"""A reference clip is the largest, of shared.clip.MAX_CLIP_BYTES."""

MAX_REPLY_BYTES = 64 << 20
"""Far more than any step of the codec makes: 512 frames are 1 MB."""

_LENGTH = struct.Struct("<I")
LENGTH_BYTES = _LENGTH.size

Number = Annotated[int, Meta(ge=0, lt=1 << 62)]
"""Of a request, unique among those a worker has sent."""

MAX_PROMPT_IDS = 2048
MAX_CODES_BYTES = 2000 * 32
_MAX_FRAMES = 2000
MAX_PROFILE_BYTES = 1 << 20


class WireError(GepardError):
    """The other side sent what no peer of this version sends."""


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """On the wire an array: the tag, then the fields in their order."""


# --- From the worker -----------------------------------------------------------------------------------------


class Speak(_Message, frozen=True, array_like=True, tag=1):
    """Speak a text, in the voice of `profile` (SpeakerProfile.to_bytes) or, where that is empty, of a starter.

    `frame_cap`: the most frames, by the length of the text. `codes`: frames of an earlier attempt, a byte a code.
    """

    number: Number
    prompt_ids: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=1, max_length=MAX_PROMPT_IDS)]
    starter: Annotated[str, Meta(max_length=256)]
    profile: Annotated[bytes, Meta(max_length=MAX_PROFILE_BYTES)]
    seed: Seed
    sampling: Sampling
    frame_cap: Annotated[int, Meta(gt=0, le=_MAX_FRAMES)]
    codes: Annotated[bytes, Meta(max_length=MAX_CODES_BYTES)] = b""


class Cancel(_Message, frozen=True, array_like=True, tag=2):
    """Nobody waits for it any more; unknown numbers are ignored, since an end may cross it."""

    number: Number


class Profile(_Message, frozen=True, array_like=True, tag=3):
    """Make a voice of a clip, as shared.clip.Clip.to_bytes."""

    number: Number
    clip: Annotated[bytes, Meta(max_length=MAX_CLIP_BYTES)]


Request = Speak | Cancel | Profile


# --- From the host -------------------------------------------------------------------------------------------


class Hello(_Message, frozen=True, array_like=True, tag=1):
    """The first message; `info.capacity` is the worker's share of the host's."""

    version: int
    info: EngineInfo
    figures: HostFigures


class Sound(_Message, frozen=True, array_like=True, tag=2):
    """Sound of some streams, in rows of `num_frames` frames.

    `pcm`: [streams, 1024 num_frames] 16-bit samples, little-endian. `codes`: [streams, num_frames, 32] bytes.
    `counts`: how many frames of each row are sound; only the last row of a stream has fewer than the others.
    """

    numbers: list[int]
    counts: list[int]
    num_frames: int
    pcm: memoryview
    codes: memoryview


class Ended(_Message, frozen=True, array_like=True, tag=3):
    """A stream has ended; all its sound came before. `reason`: workers.gepard.generate.FinishReason."""

    number: int
    reason: Annotated[str, Meta(pattern="^(stop|limit)$")]


class Refused(_Message, frozen=True, array_like=True, tag=4):
    """A request failed, whatever it was; others go on. `is_fault`: the request is not to blame."""

    number: int
    message: str
    is_fault: bool = False


class Profiled(_Message, frozen=True, array_like=True, tag=5):
    """The profile of a clip, as SpeakerProfile.to_bytes."""

    number: int
    profile: bytes


class Figures(_Message, frozen=True, array_like=True, tag=6):
    """How the host is, some times a second; also a sign of life."""

    figures: HostFigures


Reply = Hello | Sound | Ended | Refused | Profiled | Figures

_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(Request)
_replies = msgspec.msgpack.Decoder(Reply)


def packed(*messages: Request | Reply) -> bytearray:
    """Messages as they go over the socket."""
    data, end = bytearray(), 0
    for message in messages:
        data += b"\0\0\0\0"
        _encoder.encode_into(message, data, end + LENGTH_BYTES)
        _LENGTH.pack_into(data, end, len(data) - end - LENGTH_BYTES)
        end = len(data)
    return data


def length_of(head: Any, max_bytes: int) -> int:  # noqa: ANN401 - any buffer
    """The length of the message after these LENGTH_BYTES. Raises WireError for none and for too many bytes."""
    length: int = _LENGTH.unpack_from(head)[0]
    if not 0 < length <= max_bytes:
        raise WireError(f"a message of {length} bytes; 1 to {max_bytes} are allowed")
    return length


def read_request(body: bytearray) -> Request:
    """Raises WireError for anything else."""
    return cast("Request", _read(_requests, body))


def read_reply(body: bytearray) -> Reply:
    """Raises WireError for anything else. Views of the result keep `body` alive."""
    return cast("Reply", _read(_replies, body))


def _read(decoder: "msgspec.msgpack.Decoder[Any]", body: bytearray) -> Any:  # noqa: ANN401 - of either union
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WireError(f"no message: {error}") from error
