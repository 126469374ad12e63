from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is absent; `make test-gepard` installs it")

from workers.gepard.philox import philox, split_seed, unit_interval
from workers.gepard.sampling import (
    SamplingParams,
    draw,
    guided_logits,
    gumbel_noise,
    seen_values,
    shape_logits,
    split_heads,
)

SIZES = (8, 7, 6, 6) * 8


def _shaped(logits: Any, seen: Any = None, *, temperature: float = 1.0, top_k: int = 0, penalty: float = 1.0) -> Any:
    padded = split_heads(logits, SIZES) if logits.ndim == 2 else logits
    return shape_logits(
        padded,
        seen=torch.zeros_like(padded, dtype=torch.bool) if seen is None else seen,
        penalty=torch.full((len(padded),), penalty),
        temperature=torch.full((len(padded),), temperature),
        top_k=torch.full((len(padded),), top_k),
    )


def _flat(padded: Any) -> np.ndarray:
    """[1, H, W] back to the concatenated layout [sum of sizes]."""
    return torch.cat([padded[0, head, :size] for head, size in enumerate(SIZES)]).numpy()


@pytest.fixture
def logits(golden: dict[str, np.ndarray]) -> Any:
    """[1, 216]; the golden window is the four frames before it."""
    return torch.from_numpy(golden["tf_logits_ref_short"][3:4])


@pytest.fixture
def seen(golden: dict[str, np.ndarray]) -> Any:
    return seen_values(torch.from_numpy(golden["tf_frames"][:4]).long(), 4, 8)[None]


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_philox_gives_the_published_words(counter: tuple[int, ...], key: tuple[int, ...], words: str) -> None:
    """Known answers of the authors' Random123 library, philox4x32 with 10 rounds."""
    out = philox(tuple(torch.tensor(c) for c in counter), tuple(torch.tensor(k) for k in key))  # type: ignore[arg-type]
    assert " ".join(f"{word.item():08x}" for word in out) == words


def test_uniforms_stay_inside_the_open_interval() -> None:
    uniform = unit_interval(torch.tensor([0, 0xFFFFFFFF]))
    assert 0.0 < uniform[0] < uniform[1] < 1.0


@pytest.mark.parametrize(
    ("seed", "key"),
    [(0, (0, 0)), (1 << 32, (0, 1)), (-1, (0xFFFFFFFF, 0xFFFFFFFF)), ((1 << 64) + 5, (5, 0))],
)
def test_seeds_are_taken_modulo_two_to_the_64(seed: int, key: tuple[int, int]) -> None:
    assert split_seed(seed) == key


def test_noise_depends_on_seed_frame_and_head_alone() -> None:
    seeds, frames = [7, 8, -3, 7], [0, 5, 200, 1]
    together = gumbel_noise(seeds, frames, 32, 8)
    for row, (seed, frame) in enumerate(zip(seeds, frames, strict=True)):
        assert torch.equal(gumbel_noise([seed], [frame], 32, 8)[0], together[row])
    assert torch.equal(gumbel_noise([7], [0], 4, 8)[0], together[0, :4])
    assert together.unique().numel() == together.numel()


def test_noise_keeps_its_values() -> None:
    """A changed generator would change every seeded request, and part this engine from the others."""
    expected = [-0.109834, 2.964277, -0.292693, 1.228497, 0.824838, 0.30265, -1.373247, -1.656752]
    assert gumbel_noise([1234], [17], 32, 8)[0, 31].tolist() == pytest.approx(expected, abs=2e-6)


def test_draws_follow_the_distribution() -> None:
    probabilities = torch.tensor([0.5, 0.25, 0.15, 0.1])
    frames = list(range(4000))
    shaped = probabilities.log().expand(len(frames), 1, 4)
    codes = draw(shaped, gumbel_noise([3] * len(frames), frames, 1, 4), torch.ones(len(frames)))
    shares = codes.flatten().bincount(minlength=4) / len(frames)
    assert shares.tolist() == pytest.approx(probabilities.tolist(), abs=0.025)


def test_temperature_zero_takes_the_first_of_the_largest() -> None:
    shaped = torch.tensor([[[1.0, 3.0, 3.0, -torch.inf]]])
    assert draw(shaped, gumbel_noise([0], [0], 1, 4) * 100, torch.zeros(1)).tolist() == [[1]]


def test_padding_is_never_drawn() -> None:
    logits = torch.full((200, 216), -1e30)
    codes = draw(_shaped(logits), gumbel_noise([1] * 200, list(range(200)), 32, 8), torch.ones(200))
    assert bool((codes < torch.tensor(SIZES)).all())


def test_sampler_probabilities_are_the_reference_ones(
    logits: Any, seen: Any, golden: dict[str, np.ndarray], facts: dict[str, Any]
) -> None:
    for stage in facts["sampler_stages"]:
        shaped = _shaped(
            logits,
            seen,
            temperature=stage["temperature"],
            top_k=stage["top_k"],
            penalty=stage["repetition_penalty"],
        )
        np.testing.assert_allclose(
            _flat(shaped.softmax(-1)), golden[f"sampler_probs_{stage['i']}"], atol=1e-6, err_msg=str(stage)
        )


def test_the_penalty_is_the_reference_one(logits: Any, seen: Any, golden: dict[str, np.ndarray]) -> None:
    np.testing.assert_allclose(_flat(_shaped(logits, seen, penalty=1.3)), golden["penalized_logits_1p3"], atol=1e-5)


@pytest.mark.parametrize(("window", "values"), [(1, {3}), (2, {3, 1}), (0, {0, 1, 3}), (99, {0, 1, 3})])
def test_the_window_counts_frames_from_the_last(window: int, values: set[int]) -> None:
    seen = seen_values(torch.tensor([[0], [0], [1], [3]]), window, 8)
    assert set(seen[0].nonzero().flatten().tolist()) == values


def test_no_frame_yet_means_nothing_seen() -> None:
    assert not seen_values(torch.zeros((0, 32), dtype=torch.int64), 4, 8).any()


@pytest.mark.parametrize(("top_k", "kept"), [(0, 8), (1, 2), (2, 2), (3, 3), (8, 8), (500, 8)])
def test_ties_at_the_top_k_boundary_stay(top_k: int, kept: int) -> None:
    logits = torch.tensor([[[5.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0, -1.0]]])
    assert int(_shaped(logits, top_k=top_k).isfinite().sum()) == kept


def test_guidance_extrapolates_from_the_unconditional_branch() -> None:
    guided = guided_logits(torch.tensor([[2.0]]), torch.tensor([[1.0]]), torch.tensor([[3.0]]))
    assert guided.item() == 4.0


@pytest.mark.parametrize(
    ("params", "limit"),
    [
        ({"max_frames": 0}, 1),
        ({"max_frames": 9, "force_stop_frames": 4}, 4),
        ({"max_frames": 3, "force_stop_frames": 9}, 3),
    ],
    ids=["at least one", "forced", "capped"],
)
def test_the_lower_bound_on_frames_wins(params: dict[str, int], limit: int) -> None:
    assert SamplingParams(**params).frame_limit == limit


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"repetition_penalty": 0.0},
        {"repetition_window": -1},
        {"cfg_scale": float("inf")},
        {"cfg_frames": -1},
        {"cfg_uncond_mode": "none"},
        {"stop_threshold": 1.5},
        {"max_frames": 2001},
    ],
    ids=lambda bad: next(iter(bad)),
)
def test_values_without_a_meaning_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        SamplingParams(**bad)
