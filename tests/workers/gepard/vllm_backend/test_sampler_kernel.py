"""The fused sampler against the plain one, of which it must draw every code."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="PyTorch is absent; `make test-gepard` installs it")
pytest.importorskip("triton", reason="Triton is absent; `make setup-gepard` installs it")

from workers.gepard.heads import stop_probabilities
from workers.gepard.sampling import (
    SamplingParams,
    draw,
    guided_logits,
    gumbel_noise,
    seen_values,
    shape_logits,
    split_heads,
)
from workers.gepard.vllm_backend.sampler_kernel import FrameSampler
from workers.gepard.vllm_backend.slots import NONE, SlotParams, SlotTable

SIZES = (8, 7, 6, 6) * 8
NUM_LOGITS = sum(SIZES)
FRAME0, EOS = 1000, 3
PROMPT = 11
NEVER = -30.0


def _no_frames() -> Any:
    return torch.zeros((0, len(SIZES)), dtype=torch.int64)


@dataclass
class Request:
    """A running request; codes: its frames so far, [n, H] int64 on the CPU."""

    sampling: SamplingParams = field(default_factory=SamplingParams)
    seed: int = 0
    codes: Any = field(default_factory=_no_frames)


def plain_frame(request: Request, logits: Any, unconditional: Any = None) -> Any:
    """What generate.py does with one row of logits: the next frame [H] int64, None at the end."""
    sampling, frame = request.sampling, len(request.codes)
    if frame > 0:
        (probability,) = stop_probabilities(logits[None, -1])
        if frame >= sampling.frame_limit or probability > sampling.stop_threshold:
            return None
    scored = logits[None, :-1].float()
    if sampling.guided_frames is None or frame < sampling.guided_frames:
        scored = guided_logits(scored, unconditional[None, :-1].float(), torch.tensor(sampling.cfg_scale))
    padded = split_heads(scored, SIZES)
    history = request.codes if sampling.repetition_penalty != 1.0 else request.codes[:0]
    temperature = torch.tensor([sampling.temperature])
    shaped = shape_logits(
        padded,
        seen=seen_values(history, sampling.repetition_window, padded.shape[-1])[None],
        penalty=torch.tensor([sampling.repetition_penalty]),
        temperature=temperature,
        top_k=torch.tensor([sampling.top_k]),
    )
    return draw(shaped, gumbel_noise([request.seed], [frame], len(SIZES), padded.shape[-1]), temperature)[0]


class Batch:
    """A slot table, a store with a lane for each slot and a sampler, and requests that come with their frames."""

    def __init__(self, device: Any, *, num_slots: int = 8, lane_rows: int = 80) -> None:
        self.device = device
        self.lane_rows = lane_rows
        self.table = SlotTable(num_slots, device)
        self.frames = torch.zeros((num_slots * lane_rows, len(SIZES)), dtype=torch.uint8, device=device)
        self.sampler = FrameSampler(
            head_sizes=SIZES, slots=self.table, frames=self.frames, lane_rows=lane_rows, frame0=FRAME0, eos=EOS
        )

    def add(self, slot: int, request: Request, *, start: int = 0, **params: Any) -> None:
        """Take a request whose frames are to be in its slot's lane from row `start` on, around the end."""
        known, lane = len(request.codes), slot * self.lane_rows
        rows = [lane + (start + frame) % self.lane_rows for frame in range(known)]
        self.frames[rows] = request.codes.to(self.device, torch.uint8)
        self.table.write(
            slot,
            SlotParams(
                sampling=request.sampling,
                seed=request.seed,
                prompt_length=PROMPT,
                known_frames=known,
                origin=lane + start,
                **params,
            ),
        )
        self.table.apply()

    def step(self, logits: Any, slots: list[int], num_frames: list[int]) -> list[int]:
        """The tokens of one launch over rows whose requests have so many frames."""
        tokens = torch.full((len(slots),), -7, device=self.device)
        num_sampled = torch.full((len(slots),), -7, dtype=torch.int32, device=self.device)
        self.sampler(
            logits.to(self.device),
            torch.tensor(slots, dtype=torch.int32, device=self.device),
            torch.tensor(num_frames, dtype=torch.int32, device=self.device) + PROMPT,
            tokens,
            num_sampled,
        )
        self.num_sampled = num_sampled.tolist()
        return tokens.tolist()

    def codes(self, token: int) -> Any:
        """The frame behind a token, [H] int64."""
        assert token >= FRAME0
        return self.frames[token - FRAME0].long().cpu()

    def assert_drew(self, token: int, expected: Any) -> None:
        if expected is None:
            assert token == EOS
        else:
            assert self.codes(token).tolist() == expected.tolist()


def random_logits(seed: int, rows: int, *, stop: float = NEVER, grid: float = 0.0, spread: float = 2.0) -> Any:
    """[rows, 217] float32; with a grid, multiples of it, so that values tie."""
    logits = torch.randn((rows, NUM_LOGITS + 1), generator=torch.Generator().manual_seed(seed)) * spread
    if grid:
        logits = (logits / grid).round() * grid
    logits[:, -1] = stop
    return logits


def random_codes(seed: int, frames: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randint(size, (frames,), generator=generator) for size in SIZES], dim=1)


samplings = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.3, 0.4, 1.0, 1.7]) | st.floats(0.01, 5.0),
    top_k=st.sampled_from([0, 1, 2, 3, 6, 7, 8, 9, 5000]),
    repetition_penalty=st.sampled_from([1.0, 1.1, 1.3, 0.8]) | st.floats(0.5, 2.0),
    repetition_window=st.sampled_from([0, 1, 4, 32, 33, 10_000]),
    stop_threshold=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
    max_frames=st.sampled_from([0, 1, 40, 41, 2000]),
    force_stop_frames=st.sampled_from([None, 3, 40]),
)
requests = st.builds(
    Request,
    sampling=samplings,
    seed=st.integers(-(2**70), 2**70),
    codes=st.builds(random_codes, st.integers(0, 2**32), st.sampled_from([0, 1, 2, 31, 32, 33, 40, 70])),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batch=st.lists(requests, min_size=1, max_size=4),
    seed=st.integers(0, 2**32),
    stop=st.sampled_from([-30.0, -2.0, -0.004, 0.0, 0.004, 0.01, 2.0, 30.0]),
    grid=st.sampled_from([0.0, 0.5, 1.0, 4.0]),
    dtype=st.sampled_from(["float32", "bfloat16"]),
    start=st.integers(0, 79),
)
def test_every_row_draws_the_codes_of_the_plain_sampler(
    device: Any, batch: list[Request], seed: int, stop: float, grid: float, dtype: str, start: int
) -> None:
    logits = random_logits(seed, len(batch), stop=stop, grid=grid).to(getattr(torch, dtype))
    kernel = Batch(device)
    slots = [7 - index for index in range(len(batch))]
    for index, (slot, request) in enumerate(zip(slots, batch, strict=True)):
        kernel.add(slot, request, start=(start + 20 * index) % 80)
    tokens = kernel.step(logits, slots, [len(request.codes) for request in batch])
    for token, request, row in zip(tokens, batch, logits, strict=True):
        kernel.assert_drew(token, plain_frame(request, row))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    request=requests,
    scale=st.sampled_from([0.0, 1.5, 3.0, -1.0]),
    cfg_frames=st.sampled_from([None, 0, 1, 32, 33]),
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from(["float32", "bfloat16"]),
    unconditional_first=st.booleans(),
)
def test_a_guided_pair_draws_once_and_gets_one_token(
    device: Any,
    request: Request,
    scale: float,
    cfg_frames: int | None,
    seed: int,
    dtype: str,
    unconditional_first: bool,
) -> None:
    request = replace(request, sampling=replace(request.sampling, cfg_scale=scale, cfg_frames=cfg_frames))
    logits = random_logits(seed, 3).to(getattr(torch, dtype))
    logits[1, -1] = 30.0  # what the unconditional branch says of the end does not count
    kernel = Batch(device)
    kernel.add(2, request, partner=5)
    kernel.add(5, request, partner=2, is_unconditional=True)
    kernel.add(0, Request(), start=70)
    order = [1, 0, 2] if unconditional_first else [0, 2, 1]
    slots, num_frames = [2, 5, 0], [len(request.codes), len(request.codes), 0]
    drawn = kernel.step(logits[order], [slots[row] for row in order], [num_frames[row] for row in order])
    tokens = dict(zip(order, drawn, strict=True))
    assert tokens[0] == tokens[1]
    kernel.assert_drew(tokens[0], plain_frame(request, logits[0], logits[1]))
    kernel.assert_drew(tokens[2], plain_frame(Request(), logits[2]))
    assert kernel.sampler.faults.item() == 0


def test_streams_go_on_as_in_the_plain_sampler_while_their_lanes_wrap(device: Any) -> None:
    """Windows of 8 frames reach back across the end of a lane of 9."""
    batch = [
        Request(SamplingParams(temperature=0.8, repetition_penalty=1.3, repetition_window=8), seed=5),
        Request(SamplingParams(temperature=0.0, repetition_penalty=1.2, repetition_window=3)),
        Request(SamplingParams(temperature=1.0, top_k=4), seed=-1),
    ]
    kernel = Batch(device, lane_rows=9)
    for slot, request in enumerate(batch):
        kernel.add(slot, request, start=slot)
    rows = []
    for step in range(30):
        logits = random_logits(step, 4)
        tokens = kernel.step(logits, [0, 1, NONE, 2], [step] * 4)
        rows += [token - FRAME0 for token in tokens if token != EOS]
        for request, row in zip(batch, (0, 1, 3), strict=True):
            expected = plain_frame(request, logits[row])
            kernel.assert_drew(tokens[row], expected)
            request.codes = torch.cat((request.codes, expected[None]))
    assert rows == [9 * slot + (slot + step) % 9 for step in range(30) for slot in range(3)]


def test_rows_that_are_padding_or_still_prefill_draw_nothing(device: Any) -> None:
    kernel = Batch(device)
    resumed = Request(codes=random_codes(1, 5))
    kernel.add(1, Request())
    kernel.add(2, resumed, start=20)
    before = kernel.frames.clone()
    tokens = kernel.step(random_logits(0, 5), [NONE, 1, 1, 2, 2], [0, -1, -PROMPT, 4, 0])
    assert tokens == [EOS] * 5
    assert kernel.num_sampled == [0] * 5
    assert torch.equal(kernel.frames, before)
    (token,) = kernel.step(random_logits(1, 1), [2], [5])
    kernel.assert_drew(token, plain_frame(resumed, random_logits(1, 1)[0]))
    assert kernel.num_sampled == [1]


def test_rows_that_draw_nothing_leave_the_history_alone(device: Any) -> None:
    """A resumed request is fed its frames in several steps, whose rows must not overwrite what it said before."""
    kernel = Batch(device)
    request = Request(SamplingParams(repetition_penalty=1.5, temperature=0.0), codes=random_codes(3, 6))
    kernel.add(0, request, start=77)
    for fed in range(6):
        assert kernel.step(random_logits(fed, 1), [0], [fed]) == [EOS]
    logits = random_logits(9, 1)
    (token,) = kernel.step(logits, [0], [6])
    kernel.assert_drew(token, plain_frame(request, logits[0]))


def test_the_first_frame_comes_whatever_the_stop_head_says(device: Any) -> None:
    kernel = Batch(device)
    kernel.add(0, Request(SamplingParams(max_frames=0, stop_threshold=0.0)))
    (token,) = kernel.step(random_logits(0, 1, stop=30.0), [0], [0])
    assert token == FRAME0
    assert kernel.step(random_logits(0, 1), [0], [1]) == [EOS]


@pytest.mark.parametrize(("threshold", "stop", "ends"), [(1.0, 100.0, False), (0.0, -80.0, True), (0.0, -200.0, False)])
def test_extreme_stop_logits_are_judged_as_by_the_plain_sampler(
    device: Any, threshold: float, stop: float, ends: bool
) -> None:
    request = Request(SamplingParams(stop_threshold=threshold), codes=random_codes(0, 1))
    kernel = Batch(device)
    kernel.add(0, request, start=9)
    logits = random_logits(0, 1, stop=stop)
    assert (plain_frame(request, logits[0]) is None) == ends
    assert (kernel.step(logits, [0], [1]) == [EOS]) == ends


@pytest.mark.parametrize("bits", range(0x3F000000 - 40, 0x3F000000 + 40, 8))
def test_thresholds_beside_a_float32_are_compared_exactly(bits: int) -> None:
    """Between two float32 values lie float64 thresholds, on whose side the probability must stay."""
    logit = torch.tensor([bits], dtype=torch.int32).view(torch.float32)
    probability = logit.sigmoid().double().item()
    for threshold in (probability - 1e-12, probability, probability + 1e-12):
        request = Request(SamplingParams(stop_threshold=threshold), codes=random_codes(0, 1))
        packed = SlotParams(sampling=request.sampling, seed=0, prompt_length=0).packed()
        as_float32 = float(packed[3:4].view("float32")[0])
        assert (probability > threshold) == (probability > as_float32)


def test_bfloat16_stop_probabilities_are_rounded_to_nearest(device: Any) -> None:
    """Logits near 0 give 0.5 in bfloat16 up to about 0.008, and from there on more."""
    kernel = Batch(device)
    request = Request(codes=random_codes(0, 1))
    kernel.add(0, request, start=79)
    ends = []
    for step in range(24):
        logits = random_logits(step, 1, stop=step * 0.0007).bfloat16()
        expected = plain_frame(request, logits[0])
        assert (kernel.step(logits, [0], [1]) == [EOS]) == (expected is None)
        ends.append(expected is None)
    assert ends[0] is False
    assert ends[-1] is True


def test_logits_that_are_not_numbers_still_give_codes_of_their_head(device: Any) -> None:
    kernel = Batch(device)
    kernel.add(0, Request())
    logits = random_logits(0, 1)
    logits[0, :-1] = torch.nan
    (token,) = kernel.step(logits, [0], [0])
    assert bool((kernel.codes(token) < torch.tensor(SIZES)).all())


def test_a_guided_row_without_its_partner_is_ended_and_counted(device: Any) -> None:
    """Never unguided in silence: neither when the partner is elsewhere nor when it was not named."""
    guided = Request(SamplingParams(cfg_scale=2.0))
    kernel = Batch(device)
    kernel.add(0, guided, partner=1)
    kernel.add(2, guided)
    assert kernel.step(random_logits(0, 2), [0, 2], [0, 0]) == [EOS, EOS]
    assert kernel.sampler.faults.item() == 2


def test_guidance_that_is_over_needs_no_partner(device: Any) -> None:
    request = Request(SamplingParams(cfg_scale=2.0, cfg_frames=2), codes=random_codes(0, 2))
    kernel = Batch(device)
    kernel.add(0, request, start=50, partner=1)
    logits = random_logits(0, 1)
    (token,) = kernel.step(logits, [0], [2])
    kernel.assert_drew(token, plain_frame(request, logits[0]))
    assert kernel.sampler.faults.item() == 0


def test_an_unconditional_row_left_alone_ends(device: Any) -> None:
    kernel = Batch(device)
    kernel.add(1, Request(SamplingParams(cfg_scale=2.0)), partner=0, is_unconditional=True)
    assert kernel.step(random_logits(0, 1), [1], [0]) == [EOS]


def test_partners_find_each_other_far_apart_in_the_batch(device: Any) -> None:
    """The batch is searched 256 rows at a time."""
    request = Request(SamplingParams(cfg_scale=3.0), seed=2)
    kernel = Batch(device)
    kernel.add(6, request, partner=7)
    kernel.add(7, request, partner=6, is_unconditional=True)
    logits = random_logits(4, 300)
    tokens = kernel.step(logits, [6] + [NONE] * 298 + [7], [0] * 300)
    assert tokens[0] == tokens[299]
    assert set(tokens[1:299]) == {EOS}
    kernel.assert_drew(tokens[0], plain_frame(request, logits[0], logits[299]))


def test_a_slot_serves_the_next_request_with_its_own_params(device: Any) -> None:
    kernel = Batch(device)
    for request in (Request(SamplingParams(temperature=0.0)), Request(SamplingParams(temperature=2.0), seed=8)):
        kernel.add(3, request)
        logits = random_logits(6, 1)
        (token,) = kernel.step(logits, [3], [0])
        kernel.assert_drew(token, plain_frame(request, logits[0]))


def test_a_store_whose_tokens_leave_int32_is_refused(device: Any) -> None:
    with pytest.raises(ValueError, match="int32"):
        FrameSampler(
            head_sizes=SIZES,
            slots=SlotTable(1, device),
            frames=torch.zeros((2, 32), dtype=torch.uint8, device=device),
            lane_rows=2,
            frame0=2**31 - 1,
            eos=0,
        )


@pytest.mark.gpu
def test_on_the_gpu_every_code_of_a_full_batch_is_the_plain_ones(device: Any) -> None:
    """256 requests of all kinds, in both dtypes, in a CUDA graph as well as outside."""
    assert device.type == "cuda"
    generator = torch.Generator().manual_seed(0)
    kernel = Batch(device, num_slots=256)
    batch = []
    for slot in range(256):
        choice = torch.randint(0, 1 << 30, (5,), generator=generator).tolist()
        request = Request(
            SamplingParams(
                temperature=(0.0, 0.4, 1.0, 1.7)[choice[0] % 4],
                top_k=choice[1] % 10,
                repetition_penalty=(1.0, 1.3, 0.8)[choice[2] % 3],
                repetition_window=(0, 4, 32)[choice[3] % 3],
            ),
            seed=choice[4],
            codes=random_codes(slot, choice[0] % 40),
        )
        kernel.add(slot, request, start=slot % 80)
        batch.append(request)
    lengths = [len(request.codes) for request in batch]
    for dtype in (torch.float32, torch.bfloat16):
        logits = random_logits(7, 256).to(dtype)
        tokens = kernel.step(logits, list(range(256)), lengths)
        for token, request, row in zip(tokens, batch, logits, strict=True):
            kernel.assert_drew(token, plain_frame(request, row))

        captured = {
            "logits": logits.to(device),
            "slots": torch.arange(256, dtype=torch.int32, device=device),
            "lengths": torch.tensor(lengths, device=device) + PROMPT,
            "tokens": torch.zeros(256, dtype=torch.int64, device=device),
            "num_sampled": torch.zeros(256, dtype=torch.int32, device=device),
        }
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kernel.sampler(**captured)
        drawn = kernel.frames[torch.tensor(tokens) - FRAME0].clone()
        for _ in range(3):
            kernel.frames[torch.tensor(tokens) - FRAME0] = 99
            graph.replay()
            assert captured["tokens"].tolist() == tokens
            assert torch.equal(kernel.frames[torch.tensor(tokens) - FRAME0], drawn)
