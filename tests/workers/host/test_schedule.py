"""The schedule of the codec against a simulated model, codec and players: no GPU, no clock."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.host.schedule import CodecLimits, Schedule

FRAME_S = 1024 / 22050
LIMITS = CodecLimits()


def step_s(num_streams, num_prefills):
    """A step of the model, as measured on an H200: 2.8 ms for one stream, 10 ms for 512; a prefill 0.2 ms."""
    return 0.0028 + 0.0000145 * num_streams + 0.0002 * num_prefills


def codec_s(num_streams, num_frames):
    """A step of the codec there: a floor of its launches, then 10 us a frame."""
    return 0.00037 + 0.0000098 * num_streams * num_frames


@dataclass(eq=False)
class Stream:
    """`given` of its `length` frames come from an earlier attempt. `heard`: (when, frames) of its chunks."""

    arrival: float
    length: int
    given: int = 0
    made: int = 0
    heard: list[tuple[float, int]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    @property
    def first_s(self):
        return self.heard[0][0] - self.arrival

    def deficit(self):
        """The longest silence after the first chunk, for a player that never stops."""
        until, worst = self.heard[0][0], 0.0
        for when, frames in self.heard:
            worst = max(worst, when - until)
            until += frames * FRAME_S
        return worst


def simulate(streams, *, step=step_s, codec=codec_s, limits=LIMITS, chunk_s=0.0, schedule_type=Schedule):
    """Run until every stream has been heard to its end; returns the passes, as lists of steps."""
    schedule, now, passes = schedule_type(limits, frame_s=FRAME_S, chunk_s=chunk_s), 0.0, []
    coming, running = sorted(streams, key=lambda stream: stream.arrival), {}
    while coming or running:
        if not running:
            now = max(now, coming[0].arrival)
        began = now
        new = [stream for stream in coming if stream.arrival <= now]
        coming = coming[len(new) :]
        for stream in new:
            running[stream] = schedule.add(stream, num_given=stream.given)
        # As in the loop: a stream joins the model when what it brings is decoded.
        making = [s for s, line in running.items() if not line.num_given and not line.is_ended]
        if making:
            now += step(len(making), sum(stream.made == 0 for stream in making))
        for stream in making:
            line = running[stream]
            stream.made += 1
            line.num_waiting += 1
            line.is_ended = stream.given + stream.made == stream.length
        steps = schedule.plan(now)
        passes.append(steps)
        for decode in steps:
            now += codec(limits.padded(len(decode.chunks)), decode.num_frames)
            for chunk in decode.chunks:
                chunk.line.key.heard.append((now, chunk.num_frames))
                chunk.line.key.sizes.append(decode.num_frames)
        for stream, line in list(running.items()):
            if line.is_ended and not line.num_waiting and not line.num_given:
                schedule.remove(stream)
                del running[stream]
        schedule.passed(now - began)
        assert now < 1000, "the schedule does not end"
    return passes


def burst(count, length=200):
    return [Stream(0.0, length) for _ in range(count)]


def poisson(count, *, per_s, seed=0, length=200):
    rng, now, streams = random.Random(seed), 0.0, []
    for _ in range(count):
        now += rng.expovariate(per_s)
        streams.append(Stream(now, rng.randint(length // 4, length)))
    return streams


def check_complete(streams, passes):
    """Every frame once, in order, in steps the codec takes."""
    for stream in streams:
        assert sum(frames for _, frames in stream.heard) == stream.length
    for steps in passes:
        for step in steps:
            assert step.num_frames in LIMITS.frame_counts
            assert 0 < len(step.chunks) <= LIMITS.batch_sizes[-1]
            assert len(step.chunks) * step.num_frames <= LIMITS.max_step_frames
            assert len({chunk.line for chunk in step.chunks}) == len(step.chunks)


def simulated(streams, **given):
    passes = simulate(streams, **given)
    check_complete(streams, passes)
    return passes


CHUNK_S = 0.00025
"""Four workers of 1000 chunks a second."""


@pytest.mark.parametrize("count", [1, 32, 128, 256, 512])
@pytest.mark.parametrize("chunk_s", [0.0, CHUNK_S])
def test_after_the_first_chunk_of_a_burst_there_is_no_hole(count, chunk_s):
    streams = burst(count)
    simulated(streams, chunk_s=chunk_s)
    assert max(stream.deficit() for stream in streams) == 0


@pytest.mark.parametrize("count", [1, 32, 128, 256, 512])
def test_arrivals_at_any_time_leave_no_hole(count):
    """About `count` at a time: each takes some 5 s to be made, when so many run."""
    streams = poisson(2 * count, per_s=count / 5)
    simulated(streams, chunk_s=CHUNK_S)
    assert max(stream.deficit() for stream in streams) == 0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.floats(1, 300), st.integers(1, 80))
def test_no_pattern_of_arrivals_makes_a_hole(seed, count, per_s, length):
    streams = poisson(count, per_s=per_s, seed=seed, length=4 * length)
    simulated(streams, chunk_s=CHUNK_S)
    assert max(stream.deficit() for stream in streams) == 0


def test_a_crowd_that_starts_makes_no_running_stream_late():
    """64 streams run; 192 more come at once. The guard against the crowd's prefills is the running ones' stock."""
    running, crowd = burst(64, length=400), [Stream(1.0, 200) for _ in range(192)]
    simulated([*running, *crowd], chunk_s=CHUNK_S)
    assert max(stream.deficit() for stream in running) == 0
    assert max(stream.first_s for stream in crowd) < 0.2


def test_alone_a_stream_begins_with_one_frame_and_doubles():
    (stream,) = streams = burst(1)
    simulated(streams)
    assert stream.sizes[:6] == [1, 2, 4, 8, 16, 16]
    assert stream.first_s == pytest.approx(step_s(1, 1) + codec_s(1, 1))


def test_the_first_chunk_is_as_long_as_the_load_asks():
    """At 40 ms a step one frame, 46 ms, would not last until the second chunk."""
    before, stream = streams = [Stream(0.0, 50), Stream(1.0, 200)]
    simulated(streams, step=lambda *_: 0.040)
    assert (before.sizes[0], stream.sizes[0]) == (1, 2)  # nothing is known of the pace before the first pass
    assert stream.deficit() == 0


def test_with_more_streams_than_small_chunks_can_pass_chunks_are_larger():
    streams = burst(512)
    simulated(streams, chunk_s=CHUNK_S)
    assert min(stream.sizes[0] for stream in streams) == 4


def test_a_model_slower_than_speech_is_heard_as_it_comes():
    """Nothing keeps up: a larger first chunk would only be later."""
    (stream,) = streams = burst(1, length=20)
    simulated(streams, step=lambda *_: 0.4)
    assert stream.first_s == pytest.approx(0.4 + codec_s(1, 1), abs=0.45)
    assert max(stream.sizes) <= 2


def test_streams_that_began_together_drift_apart():
    """A pass decodes what the model makes in it and half as much again, rounded up, not 16 frames of all at once."""
    streams = burst(128)
    passes = simulated(streams)
    late = passes[40:-20]
    assert max(sum(len(step.chunks) * step.num_frames for step in steps) for steps in late) <= 2 * 128


def test_batches_carry_little_padding():
    streams = poisson(256, per_s=50)
    passes = simulated(streams, chunk_s=CHUNK_S)
    computed = sum(LIMITS.padded(len(step.chunks)) * step.num_frames for steps in passes for step in steps)
    assert computed <= 1.2 * sum(stream.length for stream in streams)


def test_no_frame_waits_longer_than_a_backend_keeps_it():
    streams = [*burst(200, length=300), *poisson(200, per_s=100)]
    waits = []

    class Watched(Schedule):
        def plan(self, now):
            waits.append(max((line.num_waiting for line in self._lines.values()), default=0))
            return super().plan(now)

    simulated(streams, chunk_s=CHUNK_S, schedule_type=Watched)
    assert max(waits) < 56  # of 64; up to 8 steps are under way on the device


def test_what_a_stream_brings_is_heard_first_and_completely():
    streams = [Stream(0.0, 100, given=given) for given in (99, 100 - 16, 37, 1)] + burst(3)
    passes = simulated(streams)
    for stream in streams[:4]:
        own = [(step.given, chunk.num_frames) for steps in passes for step in steps for chunk in step.chunks
               if chunk.line.key is stream]  # fmt: skip
        assert sum(frames for is_given, frames in own if is_given) == stream.given
        assert [is_given for is_given, _ in own] == sorted((is_given for is_given, _ in own), reverse=True)
        assert max(frames for _, frames in own) <= 16


def test_an_end_is_one_chunk_filled_up():
    """11 frames left are a step of 16, not three steps."""
    schedule = Schedule(LIMITS, frame_s=FRAME_S)
    line = schedule.add("a")
    line.num_waiting = 1
    schedule.plan(0.0)
    line.num_waiting, line.is_ended = 11, True
    (step,) = schedule.plan(0.01)
    assert (step.num_frames, step.chunks[0].num_frames) == (16, 11)


def test_a_stream_that_was_left_is_not_decoded():
    schedule = Schedule(LIMITS, frame_s=FRAME_S)
    schedule.add("a").num_waiting = 4
    schedule.remove("a")
    schedule.remove("unknown")
    assert schedule.plan(0.0) == []


def test_chunks_that_come_too_late_are_counted():
    schedule = Schedule(LIMITS, frame_s=FRAME_S)
    line = schedule.add("a")
    for now in (0.0, 0.02, 1.0):
        line.num_waiting += 2
        schedule.plan(now)
    assert schedule.num_late == 1
