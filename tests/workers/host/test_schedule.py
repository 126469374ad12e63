"""The schedule of the codec against a simulated model, codec and players: no GPU, no clock."""

import random
from dataclasses import dataclass, field

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


def simulate(streams, *, step=step_s, codec=codec_s, limits=LIMITS, chunk_s=0.0):
    """Run until every stream has been heard to its end; returns the passes, as lists of steps."""
    schedule, now, passes = Schedule(limits, frame_s=FRAME_S, chunk_s=chunk_s), 0.0, []
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


if __name__ == "__main__":

    for name, make in [("burst", burst), ("poisson", lambda n: poisson(2 * n, per_s=n / 5))]:
        for n in (1, 8, 32, 128, 256, 512):
            streams = make(n)
            passes = simulate(streams, chunk_s=0.00025)
            check_complete(streams, passes)
            firsts = sorted(s.first_s for s in streams)
            d = max(s.deficit() for s in streams)
            chunks = sum(len(s.heard) for s in streams)
            frames = sum(s.length for s in streams)
            steps = sum(len(p) for p in passes)
            pad = sum(LIMITS.padded(len(x.chunks)) * x.num_frames for p in passes for x in p) / frames
            end = max(s.heard[-1][0] for s in streams)
            print(
                name,
                n,
                f"first p50 {1000 * firsts[len(firsts) // 2]:.1f} p99 {1000 * firsts[int(len(firsts) * 0.99)]:.1f} ms, deficit {1000 * d:.1f} ms, {frames / chunks:.1f} frames/chunk, {steps} steps/{len(passes)} passes, padding {pad:.3f}, {frames * FRAME_S / end:.0f} x, sizes {streams[0].sizes[:8]}",
            )
