"""The intake process: one clip, then it ends. voices/clips.py starts it as `python -m voices.intake.process`.

Its order comes as the one argument, the clip through stdin; the report goes to stdout. Before it looks at the
clip it gives up what it no longer needs: memory and time are bounded, no file can be opened or grow, no socket
can be made.
"""

import os
import resource
import sys

import msgspec
import numpy as np

from voices.intake.checks import FRAME_SAMPLES, activity, refusal
from voices.intake.decode import NotAudio, TooLong, decode
from voices.intake.flac import to_flac
from voices.intake.order import CLIP_RATE_HZ, Order, Refused, Report, Taken
from voices.intake.window import best_window

_NICENESS = 10


def main() -> None:
    """Take in one clip."""
    order = msgspec.json.decode(sys.argv[1], type=Order)
    # Libraries load some of their modules late, when it would be too late.
    take_in(to_flac(np.zeros(CLIP_RATE_HZ // 10, np.int16), CLIP_RATE_HZ), order)
    _give_up_rights(order)
    try:
        report = take_in(sys.stdin.buffer.read(), order)
    except MemoryError:
        report = Refused(code="clip_undecodable")
    sys.stdout.buffer.write(msgspec.msgpack.encode(report))


def take_in(data: bytes, order: Order) -> Report:
    """Decode, cut, check and code one clip."""
    try:
        samples = decode(data, max_s=order.max_decoded_s)
    except NotAudio:
        return Refused(code="clip_not_audio")
    except TooLong:
        return Refused(code="clip_too_long", seconds=order.max_decoded_s)
    source_samples = len(samples)
    found = activity(samples)
    start_samples = 0
    max_s = min(order.max_s or order.max_stored_s, order.max_stored_s)
    num_frames = max(int(max_s * CLIP_RATE_HZ) // FRAME_SAMPLES, 1)
    if source_samples > num_frames * FRAME_SAMPLES:
        if order.max_s is None:
            return Refused(code="clip_too_long", seconds=order.max_stored_s)
        start = best_window(found, num_frames)
        found = found.part(start, num_frames)
        start_samples = start * FRAME_SAMPLES
        samples = samples[start_samples : start_samples + num_frames * FRAME_SAMPLES]
    if (reason := refusal(found)) is not None:
        return reason
    integers = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2")
    return Taken(
        pcm=integers.tobytes(),
        flac=to_flac(integers, CLIP_RATE_HZ),
        source_s=source_samples / CLIP_RATE_HZ,
        start_s=start_samples / CLIP_RATE_HZ,
        speech_s=found.speech_s,
    )


def _give_up_rights(order: Order) -> None:
    # Speech that is being made comes first.
    os.nice(_NICENESS)
    for limit, value in (
        (resource.RLIMIT_AS, order.max_memory_bytes),
        (resource.RLIMIT_CPU, order.max_cpu_s),
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))


if __name__ == "__main__":
    main()
