"""Which streams are decoded next, and how many frames of each at once: decisions only, no clock, no tensor.

A listener is thought of as a player that starts with the first chunk and never stops; a stream's `dry_at` is when
it has played all. One pass of the loop, a step of the model and what is decoded after it, lasts `pace_s`, so a
chunk that comes by then must be decided some `pace_s` earlier. Three kinds of streams are due, in this order:

- those that would run dry, the earliest first, with whatever frames they have;
- those that begin, with a first chunk that lasts until the next one can be there;
- all others that have as many frames as they were told to wait for: twice as many as the chunk before, as far as
  their player's stock allows, up to the largest step. They may wait, and fill what a batch has left.

Large chunks cost less in every process they pass: with so many streams that a round of small ones would take
longer than it sounds, no chunk is that small. A bound on each pass keeps the codec from holding up the model:
streams that began together drift apart, instead of all being due in the same pass.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

_GUARD = 1.5
"""Passes that a chunk is decided before its stream runs dry: the next pass may be longer than any lately."""

_MARGIN_S = 0.008
"""For what lies between the decision and the player: copy, socket, encoder."""

_FORGET = 0.3
"""Share of the newest pass in `pace_s` when it was shorter; a longer one counts at once."""

_SPARE = 1.25
"""Sound in a round of chunks by the time that the round takes on its way, when chunks are as small as may be."""

_SHARE_OF_PASS = 1.5
"""Frames decoded without haste in a pass, by the frames that the model makes in it: the rest is caught up."""

_MOST_PADDING = 0.25
"""Share of a batch that may be empty before streams without haste are left for the next pass."""

_STALE_FRAMES = 40
"""A stream with so many frames waits no longer: a backend keeps only the last 64."""

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecLimits:
    """The steps a codec takes well, ascending: frames of a stream at once, streams at once, frames in all."""

    frame_counts: tuple[int, ...] = (1, 2, 4, 8, 16)
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    max_step_frames: int = 512

    def down(self, num_frames: int) -> int:
        """The largest frame count that `num_frames` >= 1 fill."""
        return self.frame_counts[max(0, bisect_right(self.frame_counts, num_frames) - 1)]

    def up(self, num_frames: int) -> int:
        """The smallest frame count that holds `num_frames` >= 0, or the largest there is."""
        return self.frame_counts[min(bisect_left(self.frame_counts, num_frames), len(self.frame_counts) - 1)]

    def max_batch(self, num_frames: int) -> int:
        """Streams in a step of `num_frames` each."""
        return max(1, min(self.batch_sizes[-1], self.max_step_frames // num_frames))

    def padded(self, num_streams: int) -> int:
        """The batch that `num_streams` streams are computed in."""
        return self.batch_sizes[min(bisect_left(self.batch_sizes, num_streams), len(self.batch_sizes) - 1)]


@dataclass(slots=True, eq=False)
class Line(Generic[Key]):
    """A stream in the schedule.

    `num_given`: frames of an earlier attempt that are not decoded yet; they come before all others and from
    elsewhere. `num_waiting`: frames that the model has made and nobody decoded. `wanted`: how many of them the
    next chunk waits for. `dry_at`: see above; it means nothing before the first chunk.
    """

    key: Key
    num_given: int = 0
    num_waiting: int = 0
    num_decoded: int = 0
    wanted: int = 1
    dry_at: float = 0.0
    is_ended: bool = False


@dataclass(frozen=True, slots=True)
class Chunk(Generic[Key]):
    """Frames of one stream in a step. Fewer than the step has only at an end: what follows them is no sound."""

    line: Line[Key]
    num_frames: int


@dataclass(slots=True)
class DecodeStep(Generic[Key]):
    """One step of the codec: `num_frames` frames of each stream. `given`: of those of an earlier attempt."""

    num_frames: int
    chunks: list[Chunk[Key]] = field(default_factory=list)
    given: bool = False


class Schedule(Generic[Key]):
    """The lines of one codec. Times are seconds of any one clock."""

    def __init__(self, limits: CodecLimits, *, frame_s: float, chunk_s: float = 0.0) -> None:
        """`chunk_s`: what any chunk takes of the way to its client, whatever is in it; all workers together."""
        self._limits = limits
        self._chunk_s = chunk_s
        self._frame_s = frame_s
        self._lines: dict[Key, Line[Key]] = {}
        self._longest = limits.frame_counts[-1]
        self.pace_s = 0.0
        """How long a pass takes at present; see `passed`."""
        self.num_late = 0
        """Chunks so far that came after their stream had run dry."""

    @property
    def num_waiting(self) -> int:
        """Frames nobody has decoded yet."""
        return sum(line.num_given + line.num_waiting for line in self._lines.values())

    def add(self, key: Key, *, num_given: int = 0) -> Line[Key]:
        """A stream begins."""
        line = self._lines[key] = Line(key, num_given=num_given)
        return line

    def remove(self, key: Key) -> None:
        """A stream has ended or was left; unknown ones are ignored."""
        self._lines.pop(key, None)

    def passed(self, seconds: float) -> None:
        """A pass with running streams took so long."""
        self.pace_s = max(seconds, self.pace_s + _FORGET * (seconds - self.pace_s))

    def plan(self, now: float) -> list[DecodeStep[Key]]:
        """The steps of this pass, in their order. The lines count as decoded."""
        lead_s = _GUARD * self.pace_s + _MARGIN_S
        least = self._limits.up(math.ceil(_SPARE * len(self._lines) * self._chunk_s / self._frame_s))
        first = max(least, self._first_size(lead_s))
        given, dry, starts, ripe = [], [], [], []
        for line in self._lines.values():
            if line.num_given:
                given.append(line)
            elif line.num_waiting < least and not (line.is_ended and line.num_waiting):
                continue
            elif not line.num_decoded:
                if line.num_waiting >= first or line.is_ended:
                    starts.append(line)
            elif line.dry_at - now < lead_s or line.num_waiting >= _STALE_FRAMES:
                dry.append(line)
            elif line.num_waiting >= line.wanted or line.is_ended:
                ripe.append(line)
        steps = [
            *self._made(self._hasty(dry), self._first(starts, first), ripe),
            *self._given(given),
        ]
        for step in steps:
            for chunk in step.chunks:
                self._decoded(chunk, now, lead_s, given=step.given)
        return steps

    def _first_size(self, lead_s: float) -> int:
        """Frames of a first chunk by the model's pace: they last until the second can be there."""
        if self.pace_s >= self._frame_s:
            # Nothing lasts: the model is slower than speech.
            return self._limits.up(2)
        return self._limits.up(math.ceil(lead_s / self._frame_s))

    def _hasty(self, lines: list[Line[Key]]) -> list[Chunk[Key]]:
        """Chunks of streams that run dry: no more than two full steps together, so that the last is not late."""
        lines.sort(key=_dry_at)
        most = self._limits.down(max(1, 2 * self._limits.max_step_frames // max(1, len(lines))))
        return [self._chunk(line, most) for line in lines]

    def _first(self, lines: list[Line[Key]], size: int) -> list[Chunk[Key]]:
        """First chunks in the order of arrival: one full step of them in a pass."""
        return [self._chunk(line, size) for line in lines[: max(1, self._limits.max_step_frames // size)]]

    def _chunk(self, line: Line[Key], most: int) -> Chunk[Key]:
        if line.is_ended and line.num_waiting <= most:
            return Chunk(line, line.num_waiting)
        return Chunk(line, min(most, self._limits.down(line.num_waiting)))

    def _made(
        self, dry: list[Chunk[Key]], starts: list[Chunk[Key]], ripe: list[Line[Key]]
    ) -> Iterable[DecodeStep[Key]]:
        """Steps of frames the model made: by their size in the order of haste, then filled up."""
        groups: dict[int, list[Chunk[Key]]] = {}
        for chunk in (*dry, *starts):
            groups.setdefault(self._limits.up(chunk.num_frames), []).append(chunk)
        num_hasty = {size: len(chunks) for size, chunks in groups.items()}
        ripe.sort(key=_dry_at)
        budget = max(self._longest, _SHARE_OF_PASS * len(self._lines))
        left: list[Line[Key]] = []
        for line in ripe:
            if budget <= 0:
                left.append(line)
                continue
            chunk = self._chunk(line, self._longest)
            budget -= chunk.num_frames
            groups.setdefault(self._limits.up(chunk.num_frames), []).append(chunk)
        for size, chunks in groups.items():
            most = self._limits.max_batch(size)
            for start in range(0, len(chunks), most):
                part = chunks[start : start + most]
                self._fit(size, part, num_hasty.get(size, 0) - start, left)
                if part:
                    yield DecodeStep(size, part)

    def _fit(self, size: int, chunks: list[Chunk[Key]], num_hasty: int, left: list[Line[Key]]) -> None:
        """Bring a batch to a size that has little padding: with streams that are left over, else without haste."""
        batch = min(self._limits.padded(len(chunks)), self._limits.max_batch(size))
        chosen: list[Line[Key]] = []
        for line in left:
            if len(chunks) + len(chosen) >= batch:
                break
            if line.num_waiting >= size >= line.wanted:
                chosen.append(line)
        for line in chosen:
            left.remove(line)
            chunks.append(Chunk(line, size))
        smaller = self._limits.batch_sizes[max(0, bisect_right(self._limits.batch_sizes, len(chunks)) - 1)]
        if batch - len(chunks) > _MOST_PADDING * batch and smaller >= max(1, num_hasty):
            kept = [chunk for chunk in chunks[smaller:] if chunk.line.num_waiting >= _STALE_FRAMES]
            if not kept:
                del chunks[smaller:]

    def _given(self, lines: list[Line[Key]]) -> Iterable[DecodeStep[Key]]:
        """One step of what streams bring from an earlier attempt; its size is that of the first in line."""
        if not lines:
            return
        size = self._limits.down(lines[0].num_given)
        fitting = [line for line in lines if line.num_given >= size][: self._limits.max_batch(size)]
        yield DecodeStep(size, [Chunk(line, size) for line in fitting], given=True)

    def _decoded(self, chunk: Chunk[Key], now: float, lead_s: float, *, given: bool) -> None:
        line, length_s = chunk.line, chunk.num_frames * self._frame_s
        if line.num_decoded and line.dry_at < now and not given:
            self.num_late += 1
        line.dry_at = max(line.dry_at, now) + length_s if line.num_decoded else now + length_s
        line.num_decoded += chunk.num_frames
        if given:
            line.num_given -= chunk.num_frames
        else:
            line.num_waiting -= chunk.num_frames
        stock_s = line.dry_at - now - lead_s
        makeable = self._longest if self.pace_s <= 0 else int(stock_s / self.pace_s)
        line.wanted = self._limits.down(max(1, min(2 * chunk.num_frames, makeable)))


def _dry_at(line: Line[Key]) -> float:
    return line.dry_at
