"""Who runs when: admission and the rows of each step. Decisions only; the device and vLLM are elsewhere.

A stream is admitted when everything it will ever need is free: its rows of the batch, its lane of the frame
store, its voice row and the cache blocks of its whole length, which the frame limit bounds. So none is ever
preempted, and a step in which all streams only decode needs no decision: the plan of the step before is used
again. A guided stream has two rows, which are in the same steps from their first sample on.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from workers.gepard.backend import FrameStep
from workers.gepard.generate import StreamId
from workers.gepard.vllm_backend.token_space import STOP, TokenSpace
from workers.gepard.vllm_backend.voices import VoiceRows


@dataclass(slots=True, kw_only=True)
class Branch:
    """One row of the batch. `samples`: steps that sample it, from now on. ids, blocks: set on admission."""

    name: str
    text_ids: list[int]
    samples: int
    ids: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    num_computed: int = 0

    @property
    def num_unread(self) -> int:
        """Ids of the prompt that no step has read."""
        return max(0, len(self.ids) - self.num_computed)


@dataclass(slots=True, kw_only=True, eq=False)
class Stream:
    """A request on its way. Frames 0 .. num_given-1 came with it.

    frame_start: where in its lane frame 0 is. num_told: frames whose row the caller knows, given ones included.
    """

    stream: StreamId
    branches: list[Branch]
    num_given: int
    limit: int
    voice_key: bytes | None = None
    voice_length: int = 0
    lane: int = -1
    frame_start: int = 0
    voice: int = -1
    fills_voice: bool = False
    num_told: int = 0

    @property
    def conditional(self) -> Branch:
        """The branch that is sampled."""
        return self.branches[0]

    @property
    def unconditional(self) -> Branch | None:
        """The branch that guides, as long as it does."""
        return self.branches[1] if len(self.branches) > 1 else None


@dataclass(slots=True, kw_only=True)
class Plan:
    """One step. tokens: ids to read by row, for all rows. new: streams that the step sees for the first time.

    continuing: names of the other rows, num_computed: what they have read before, in the same order.
    finished: rows that are gone since the step before.
    """

    tokens: dict[str, int]
    num_tokens: int
    new: list[Stream]
    continuing: list[str]
    num_computed: list[int]
    finished: set[str]


class Planner:
    """Bounds: `rows` of a batch, `blocks` of `block_size` positions, `budget` ids read in one step."""

    def __init__(self, space: TokenSpace, *, rows: int, blocks: Iterable[int], block_size: int, budget: int) -> None:
        self.space = space
        self.budget = budget
        self._block_size = block_size
        self._first_frame = space.first_frame
        self._free_blocks = list(blocks)
        self.num_blocks = len(self._free_blocks)
        self._free_rows = self.max_rows = rows
        self._free_lanes = list(range(space.lanes))[::-1]
        self._lane_starts = [0] * space.lanes
        self._voices = VoiceRows(space.voices)
        self._waiting: deque[Stream] = deque()
        self._running: dict[StreamId, Stream] = {}
        self._owners: dict[str, Stream] = {}
        self._finished: set[str] = set()
        self._decoding = _Decoding([])
        self._changed = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running)

    @property
    def is_clean(self) -> bool:
        """Whether no stream holds anything: rows, lanes, blocks, voices."""
        return (
            self._free_rows == self.max_rows
            and len(self._free_lanes) == self.space.lanes
            and len(self._free_blocks) == self.num_blocks
            and not self._voices.num_used
        )

    def check(self, stream: Stream) -> None:
        """Raises ValueError for a stream that not even an idle engine can take."""
        if len(stream.branches) > self.max_rows:
            raise ValueError(f"guidance needs 2 rows, the engine has {self.max_rows}")
        needed = self._blocks_needed(stream)
        if needed > self.num_blocks:
            raise ValueError(f"the request needs {needed} cache blocks, the engine has {self.num_blocks}")

    def add(self, stream: Stream) -> None:
        """Let a stream wait for its turn; first come, first served."""
        self._waiting.append(stream)

    def remove(self, name: StreamId) -> None:
        """Free all a stream holds; unknown ones are ignored."""
        stream = self._running.pop(name, None)
        if stream is None:
            self._waiting = deque(waiting for waiting in self._waiting if waiting.stream != name)
            return
        for branch in stream.branches:
            self._free(branch)
        self._free_lanes.append(stream.lane)
        # A step in flight may write one frame more: before the lane's next stream does, which may have its row.
        self._lane_starts[stream.lane] = (stream.frame_start + stream.num_told) % self.space.lane_rows
        if stream.voice_key is not None:
            self._voices.release(stream.voice_key)

    def plan(self) -> Plan:
        """The next step; without tokens when no row can advance."""
        new = self._admit() if self._waiting else []
        if self._changed or self._decoding.is_over:
            return self._new_plan(new)
        return self._decoding.next_plan(self._taken_finished())

    def tell(self, names: Sequence[str], sampled: Sequence[Sequence[int]]) -> list[FrameStep]:
        """Take what the rows of a step sampled: one id each, or none. Streams whose end is told are removed.

        Rows that nobody waits for are passed over: unconditional ones, and those of streams that are gone.
        """
        steps = []
        find, first_frame = self._owners.get, self._first_frame
        for name, tokens in zip(names, sampled, strict=True):
            stream = find(name)
            if stream is None or not tokens:
                continue
            token = tokens[0]
            if token == STOP:
                self.remove(stream.stream)
                steps.append(FrameStep(stream.stream, None, "stop"))
                continue
            stream.num_told += 1
            is_last = stream.num_told >= stream.limit
            if is_last:
                self.remove(stream.stream)
            steps.append(FrameStep(stream.stream, token - first_frame, "limit" if is_last else None))
        return steps

    # --- Admission ---------------------------------------------------------------------------------------

    def _blocks_needed(self, stream: Stream) -> int:
        """Blocks for every position that is ever read: the last frame never is."""
        return sum(self._branch_blocks(stream, branch) for branch in stream.branches)

    def _branch_blocks(self, stream: Stream, branch: Branch) -> int:
        positions = stream.voice_length + len(branch.text_ids) + stream.num_given + branch.samples
        return -(-positions // self._block_size)

    def _admit(self) -> list[Stream]:
        admitted = []
        while self._waiting:
            stream = self._waiting[0]
            if len(stream.branches) > self._free_rows or self._blocks_needed(stream) > len(self._free_blocks):
                break
            self._place(self._waiting.popleft())
            admitted.append(stream)
        return admitted

    def _place(self, stream: Stream) -> None:
        stream.lane = self._free_lanes.pop()
        stream.frame_start = self._lane_starts[stream.lane]
        stream.num_told = stream.num_given
        prefix: list[int] = []
        if stream.voice_key is not None:
            stream.voice, stream.fills_voice = self._voices.acquire(stream.voice_key)
            prefix = self.space.voice_ids(stream.voice, stream.voice_length)
        first_frame = self.space.first_frame
        frames = [
            first_frame + self.space.row(stream.lane, stream.frame_start, frame) for frame in range(stream.num_given)
        ]
        for branch in stream.branches:
            branch.ids = [*prefix, *branch.text_ids, *frames]
            count = self._branch_blocks(stream, branch)
            branch.blocks = self._free_blocks[-count:]
            del self._free_blocks[-count:]
        self._free_rows -= len(stream.branches)
        self._running[stream.stream] = stream
        self._owners[stream.conditional.name] = stream
        self._changed = True

    def _free(self, branch: Branch) -> None:
        self._free_blocks.extend(branch.blocks)
        self._free_rows += 1
        self._owners.pop(branch.name, None)
        self._finished.add(branch.name)
        self._changed = True

    def _taken_finished(self) -> set[str]:
        finished, self._finished = self._finished, set()
        return finished

    # --- Steps -------------------------------------------------------------------------------------------

    def _new_plan(self, new: list[Stream]) -> Plan:
        self._decoding.settle()
        self._end_guidance()
        decoding = [
            branch
            for stream in self._running.values()
            for branch in stream.branches
            if branch.samples and not branch.num_unread
        ]
        left = self.budget - len(decoding)
        reading: list[tuple[Branch, int]] = []
        for stream in self._running.values():
            if stream.conditional.num_unread and left:
                chunks = _chunks(stream, left)
                left -= sum(count for _, count in chunks)
                reading += chunks
        if not reading:
            self._changed = False
            self._decoding = _Decoding(decoding)
            return self._decoding.next_plan(self._taken_finished()) if decoding else self._nothing()
        return self._mixed_plan(decoding, reading, new)

    def _mixed_plan(self, decoding: list[Branch], reading: list[tuple[Branch, int]], new: list[Stream]) -> Plan:
        """A step that reads prompts; the one after it is planned anew."""
        self._decoding = _Decoding([])
        steps = [(branch, 1) for branch in decoding] + reading
        fresh = {branch.name for stream in new for branch in stream.branches}
        continuing = [branch for branch, _ in steps if branch.name not in fresh]
        plan = Plan(
            tokens={branch.name: count for branch, count in steps},
            num_tokens=sum(count for _, count in steps),
            new=new,
            continuing=[branch.name for branch in continuing],
            num_computed=[branch.num_computed for branch in continuing],
            finished=self._taken_finished(),
        )
        for branch, count in steps:
            branch.num_computed += count
            if not branch.num_unread:
                branch.samples -= 1
        return plan

    def _nothing(self) -> Plan:
        """No row can advance, but some may be gone."""
        return Plan(tokens={}, num_tokens=0, new=[], continuing=[], num_computed=[], finished=self._taken_finished())

    def _end_guidance(self) -> None:
        for stream in self._running.values():
            if len(stream.branches) > 1 and not stream.branches[1].samples:
                self._free(stream.branches.pop())


class _Decoding:
    """Rows that only decode, one id a step: nothing is decided until one of them has all its samples."""

    def __init__(self, branches: list[Branch]) -> None:
        self._branches = branches
        self._tokens = {branch.name: 1 for branch in branches}
        self._names = list(self._tokens)
        self._num_computed = np.array([branch.num_computed for branch in branches], dtype=np.int64)
        self._num_left = min((branch.samples for branch in branches), default=0)
        self._num_steps = 0

    @property
    def is_over(self) -> bool:
        """Whether a row has all its samples, or there is none."""
        return self._num_left == 0

    def next_plan(self, finished: set[str]) -> Plan:
        """The same rows once more."""
        plan = Plan(
            tokens=self._tokens,
            num_tokens=len(self._names),
            new=[],
            continuing=self._names,
            num_computed=self._num_computed.tolist(),
            finished=finished,
        )
        self._num_computed += 1
        self._num_left -= 1
        self._num_steps += 1
        return plan

    def settle(self) -> None:
        """Write the steps taken back into the rows."""
        for branch in self._branches:
            branch.num_computed += self._num_steps
            branch.samples -= self._num_steps
        self._num_steps = 0


def _chunks(stream: Stream, room: int) -> list[tuple[Branch, int]]:
    """Ids that the branches of a stream read next; all branches end their prompts in one step."""
    unread = [branch.num_unread for branch in stream.branches]
    if sum(unread) <= room:
        return list(zip(stream.branches, unread, strict=True))
    if len(unread) == 1:
        return [(stream.conditional, room)]
    chunks = []
    for branch, count in zip(stream.branches, unread, strict=True):
        taken = min(count - 1, room)
        room -= taken
        if taken:
            chunks.append((branch, taken))
    return chunks
