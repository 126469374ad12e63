from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is absent; `make test-gepard` installs it")

from workers.gepard.backend import KEPT_FRAMES
from workers.gepard.generate import StreamId
from workers.gepard.vllm_backend.planner import Branch, Plan, Planner, Stream
from workers.gepard.vllm_backend.token_space import STOP, TokenSpace
from workers.gepard.vllm_backend.voices import VoiceRows

SPACE = TokenSpace(vocab_size=100, voices=6, voice_length=8, lanes=4, max_frames=50)


def planner(*, rows: int = 4, blocks: int = 40, budget: int = 64) -> Planner:
    return Planner(SPACE, rows=rows, blocks=range(1, blocks + 1), block_size=16, budget=budget)


def stream(
    number: int, *, ids: int = 10, limit: int = 5, given: int = 0, guided: int = 0, voice: bytes = b""
) -> Stream:
    """A stream whose prompt has so many ids; `guided`: frames the second branch guides."""
    branches = [Branch(name=str(number), text_ids=list(range(ids)), samples=limit - given)]
    if guided > given:
        branches.append(Branch(name=f"{number}u", text_ids=[1, 2, 3], samples=guided - given))
    return Stream(
        stream=StreamId(number),
        branches=branches,
        num_given=given,
        limit=limit,
        voice_key=voice or None,
        voice_length=8 if voice else 0,
    )


def sampled(plan: Plan, unread: dict[str, int]) -> list[list[int]]:
    """What a runner would sample: a frame's id for rows whose prompt is read, in the plan's order."""
    tokens = []
    for name, count in plan.tokens.items():
        unread[name] = unread.get(name, 0) - count
        tokens.append([SPACE.first_frame + 7] if unread[name] <= 0 else [])
    return tokens


def finish(planner: Planner, streams: list[Stream]) -> tuple[list[Plan], dict[int, int]]:
    """Run to the end; the plans, and how many frames each stream was told."""
    for item in streams:
        planner.add(item)
    plans, frames, unread = [], {}, {}
    while len(planner):
        plan = planner.plan()
        for new in plan.new:
            unread.update({branch.name: len(branch.ids) for branch in new.branches})
        plans.append(plan)
        assert plan.tokens, "nobody can advance"
        for step in planner.tell(list(plan.tokens), sampled(plan, unread)):
            frames[step.stream] = frames.get(step.stream, 0) + 1
    assert planner.is_clean
    return plans, frames


def test_every_stream_gets_its_frames_and_then_ends() -> None:
    streams = [stream(number, limit=3 + number) for number in range(9)]
    _, frames = finish(planner(), streams)
    assert frames == {number: 3 + number for number in range(9)}


def test_a_step_never_reads_more_than_its_budget() -> None:
    plans, _ = finish(planner(budget=8), [stream(number, ids=30) for number in range(4)])
    assert max(plan.num_tokens for plan in plans) == 8
    assert all(plan.num_tokens == sum(plan.tokens.values()) for plan in plans)


def test_decoding_streams_are_not_held_up_by_a_long_prompt() -> None:
    engine = planner(budget=8)
    engine.add(stream(0, ids=5, limit=20))
    engine.plan()
    engine.add(stream(1, ids=40))
    for _ in range(6):
        assert engine.plan().tokens["0"] == 1


@pytest.mark.parametrize("budget", [6, 7, 8, 11, 64])
def test_both_rows_of_a_pair_end_their_prompts_in_one_step(budget: int) -> None:
    """Also beside others, and when the prompts are read in chunks: from then on both are in every step."""
    engine = planner(budget=budget)
    plans, frames = finish(engine, [stream(0, ids=3, limit=9), stream(1, ids=25, limit=6, guided=6), stream(2, ids=4)])
    rows = [{"1", "1u"} & plan.tokens.keys() for plan in plans if "1" in plan.tokens or "1u" in plan.tokens]
    both = rows.index({"1", "1u"})
    assert all(pair == {"1", "1u"} for pair in rows[-6:])
    assert both <= len(rows) - 6
    assert frames == {0: 9, 1: 6, 2: 5}


def test_guidance_that_is_over_frees_its_row() -> None:
    plans, frames = finish(planner(), [stream(0, limit=6, guided=2)])
    assert ["0u" in plan.tokens for plan in plans] == [True, True, False, False, False, False]
    assert plans[2].finished == {"0u"}
    assert frames == {0: 6}


def test_a_pair_waits_for_two_rows_and_nobody_overtakes_it() -> None:
    engine = planner(rows=3)
    for item in (stream(0), stream(1), stream(2, guided=5), stream(3)):
        engine.add(item)
    plan = engine.plan()
    assert [item.stream for item in plan.new] == [0, 1]
    engine.remove(StreamId(1))
    assert [item.stream for item in engine.plan().new] == [2]
    engine.remove(StreamId(0))
    assert [item.stream for item in engine.plan().new] == [3]


def test_streams_wait_until_the_cache_holds_all_they_may_need() -> None:
    engine = planner(blocks=3)  # a stream needs 10 + 30 positions, which is three blocks
    for number in range(2):
        engine.add(stream(number, limit=30))
    assert [item.stream for item in engine.plan().new] == [0]
    assert not engine.plan().new
    engine.remove(StreamId(0))
    assert [item.stream for item in engine.plan().new] == [1]


def test_what_an_idle_engine_could_not_take_is_refused() -> None:
    with pytest.raises(ValueError, match="needs 4 cache blocks, the engine has 3"):
        planner(blocks=3).check(stream(0, limit=50))
    with pytest.raises(ValueError, match="guidance needs 2 rows"):
        planner(rows=1).check(stream(0, guided=5))


def test_a_step_of_decoding_rows_is_the_one_before_with_positions_one_further() -> None:
    engine = planner()
    for number in range(3):
        engine.add(stream(number, limit=20))
    engine.plan()
    first, second = engine.plan(), engine.plan()
    assert second.tokens is first.tokens
    assert second.continuing is first.continuing
    assert (first.num_computed, second.num_computed) == ([10] * 3, [11] * 3)


def test_steps_in_flight_of_a_stream_that_is_gone_are_passed_over() -> None:
    engine = planner()
    engine.add(stream(0))
    names = list(engine.plan().tokens)
    engine.plan()
    assert [step.finished for step in engine.tell(names, [[STOP]])] == ["stop"]
    assert engine.tell(names, [[SPACE.first_frame]]) == []
    assert engine.plan().finished == {"0"}
    assert engine.is_clean


def test_given_frames_are_read_as_part_of_the_prompt() -> None:
    engine = planner()
    engine.add(stream(0, limit=9, given=4, voice=b"v"))
    (item,) = engine.plan().new
    rows = [SPACE.row(item.lane, item.frame_start, frame) for frame in range(4)]
    assert item.conditional.ids == [*range(100, 108), *range(10), *(SPACE.first_frame + row for row in rows)]
    assert [step.finished for _ in range(5) for step in engine.tell(["0"], [[SPACE.first_frame]])][-1] == "limit"


def test_lanes_keep_the_last_frames_of_the_stream_before() -> None:
    """Rows are written again after 64 others of the lane at the earliest."""
    written: dict[int, list[int]] = {}
    engine = planner()
    for number in range(40):
        engine.add(stream(number, limit=1 if number % 3 else 50))
        (item,) = engine.plan().new
        lane = written.setdefault(item.lane, [])
        for frame in range(item.limit):
            row = SPACE.row(item.lane, item.frame_start, frame)
            assert row not in lane[-KEPT_FRAMES:]
            lane.append(row)
        engine.tell([str(number)] * item.limit, [[SPACE.first_frame]] * item.limit)
    assert engine.is_clean


def test_voices_share_a_row_and_the_least_recently_used_one_goes() -> None:
    rows = VoiceRows(2)
    first, filled = rows.acquire(b"a")
    assert (filled, rows.acquire(b"a")) == (True, (first, False))
    second, _ = rows.acquire(b"b")
    assert second != first
    rows.release(b"b")
    rows.release(b"a")
    rows.release(b"a")
    assert rows.acquire(b"b") == (second, False)
    rows.release(b"b")
    assert rows.acquire(b"c") == (first, True)
    assert rows.acquire(b"a") == (second, True)


@pytest.mark.parametrize("seed", range(20))
def test_random_lives_leave_nothing_behind(seed: int) -> None:
    """Streams of all kinds come, end, stop and are removed at random, two steps in flight."""
    import random  # noqa: PLC0415

    choice = random.Random(seed)
    engine = planner(rows=4, blocks=12, budget=choice.choice([6, 9, 30]))
    number, alive, in_flight, unread = 0, set(), [], {}
    told: dict[int, Any] = {}
    for _ in range(400):
        if number < 60 and choice.random() < 0.4:
            limit = choice.randint(1, 40)
            guided = choice.choice([0, 0, 3, limit])
            given = choice.choice([0, 0, limit - 1])
            item = stream(number, ids=choice.randint(1, 30), limit=limit, given=given, guided=min(guided, limit))
            engine.check(item)
            engine.add(item)
            alive.add(number)
            number += 1
        plan = engine.plan()
        for new in plan.new:
            unread.update({branch.name: len(branch.ids) for branch in new.branches})
        tokens = [[STOP] if item and choice.random() < 0.02 else item for item in sampled(plan, unread)]
        in_flight.append((list(plan.tokens), tokens))
        if len(in_flight) > 1:
            for step in engine.tell(*in_flight.pop(0)):
                assert step.stream in alive
                told[step.stream] = step.finished
                if step.finished:
                    alive.discard(step.stream)
        if alive and choice.random() < 0.05:
            engine.remove(StreamId(alive.pop()))
        assert len(engine) == len(alive)
    for name in alive:
        engine.remove(StreamId(name))
    assert engine.is_clean
    assert len(told) > 20
