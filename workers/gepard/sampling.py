"""From logits to codes: pure functions, one row a request, nothing shared between rows.

Order per head: guidance, repetition penalty, temperature, top-k, one draw. The draw is the Gumbel-max of the
shaped logits with noise keyed by (seed, frame, head, value): the same in any batch, order and engine, and
less easily flipped by rounding than a draw by cumulated probabilities.

Axes: N rows, H heads, W values of the widest head. Heads with fewer values are padded with -inf.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.gepard.layout import MAX_FRAMES, UncondMode
from workers.gepard.philox import philox, split_seed, unit_interval

_WORDS = 4  # a Philox call gives four


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How one request draws.

    temperature: 0 takes the best value. top_k: values kept a head, 0 all, ties at the boundary stay.
    repetition_penalty: 1 off, above 1 discourages values of the last `repetition_window` frames (0: all).
    cfg_scale: 1 off; cfg_frames: only so many frames are guided, None all. stop_threshold: 1 never stops.
    max_frames, force_stop_frames: upper bounds; at least one frame always comes.
    """

    temperature: float = 0.4
    top_k: int = 0
    repetition_penalty: float = 1.0
    repetition_window: int = 32
    cfg_scale: float = 1.0
    cfg_frames: int | None = None
    cfg_uncond_mode: UncondMode = "empty_text"
    stop_threshold: float = 0.5
    max_frames: int = MAX_FRAMES
    force_stop_frames: int | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for values no formula here is defined for."""
        _require(0.0 <= self.temperature < math.inf, "temperature", "0 or more")
        _require(self.top_k >= 0, "top_k", "0 or more")
        _require(0.0 < self.repetition_penalty < math.inf, "repetition_penalty", "above 0")
        _require(self.repetition_window >= 0, "repetition_window", "0 or more")
        _require(math.isfinite(self.cfg_scale), "cfg_scale", "finite")
        _require(self.cfg_frames is None or self.cfg_frames >= 0, "cfg_frames", "0 or more")
        _require(self.cfg_uncond_mode in {"empty_text", "audio_only"}, "cfg_uncond_mode", "a known mode")
        _require(0.0 <= self.stop_threshold <= 1.0, "stop_threshold", "0 to 1")
        _require(self.max_frames <= MAX_FRAMES, "max_frames", f"at most {MAX_FRAMES}")

    @property
    def frame_limit(self) -> int:
        """Frames after which generation ends whatever the model says, >= 1."""
        caps = (
            self.max_frames,
            self.max_frames if self.force_stop_frames is None else self.force_stop_frames,
        )
        return max(1, min(caps))

    @property
    def guided_frames(self) -> int | None:
        """Frames 0..n-1 need the unconditional branch; None: all of them."""
        return 0 if self.cfg_scale == 1.0 else self.cfg_frames


def _require(valid: bool, name: str, range_: str) -> None:
    if not valid:
        raise ValueError(f"{name} must be {range_}")


def guided_logits(conditional: Tensor, unconditional: Tensor, scale: Tensor) -> Tensor:
    """Classifier-free guidance, u + s (c - u). All float32; `scale` broadcasts against the logits."""
    return unconditional + scale * (conditional - unconditional)


def split_heads(logits: Tensor, head_sizes: Sequence[int]) -> Tensor:
    """Concatenated logits [N, sum of sizes] to [N, H, W], padded with -inf."""
    width = max(head_sizes)
    heads = [
        torch.nn.functional.pad(head, (0, width - head.shape[-1]), value=-torch.inf)
        for head in torch.split(logits, list(head_sizes), dim=-1)
    ]
    return torch.stack(heads, dim=1)


def seen_values(history: Tensor, window: int, width: int) -> Tensor:
    """Which values each head produced in the last `window` frames (0: all), [H, W] bool.

    history: codes of the frames so far, [T, H] int64; T may be 0.
    """
    recent = history[-window:] if window else history
    seen = torch.zeros(history.shape[1], width, dtype=torch.bool, device=history.device)
    return seen.scatter_(1, recent.t(), value=True)


def shape_logits(logits: Tensor, *, seen: Tensor, penalty: Tensor, temperature: Tensor, top_k: Tensor) -> Tensor:
    """The logits a draw is made from; their softmax is the distribution of the codes.

    logits: [N, H, W] float32. seen: [N, H, W] bool. penalty, temperature: [N] float32; temperature 0 is
    read as 1, which changes no maximum. top_k: [N] int64.
    """
    penalty = penalty[:, None, None]
    penalised = torch.where(logits > 0, logits / penalty, logits * penalty)
    shaped = torch.where(seen, penalised, logits)
    shaped = shaped / torch.where(temperature == 0, 1.0, temperature)[:, None, None]
    width = logits.shape[-1]
    # Where k exceeds a head's size the k-th largest is padding, -inf, and drops nothing.
    rank = torch.where(top_k == 0, width, top_k.clamp(max=width)) - 1
    ranked = shaped.sort(dim=-1, descending=True).values
    kth = ranked.gather(-1, rank[:, None, None].expand(-1, logits.shape[1], 1))
    return shaped.masked_fill(shaped < kth, -torch.inf)


def gumbel_noise(seeds: Sequence[int], frames: Sequence[int], num_heads: int, width: int) -> Tensor:
    """Gumbel noise of each row, [N, H, W] float32, a function of (seed, frame, head, value) alone.

    Philox counter (frame, head, value // 4, 0), key the seed; word value % 4 is that value's. The logarithms are
    taken in float64 and rounded once: every device's come to the same float32, whatever its last bit.
    """
    key = torch.tensor([split_seed(seed) for seed in seeds], dtype=torch.int64)
    frame = torch.tensor(frames, dtype=torch.int64)
    words = philox(
        (
            frame[:, None, None],
            torch.arange(num_heads)[None, :, None],
            torch.arange(-(-width // _WORDS))[None, None, :],
            torch.zeros((), dtype=torch.int64),
        ),
        (key[:, 0, None, None], key[:, 1, None, None]),
    )
    uniform = unit_interval(torch.stack(words, dim=-1).flatten(2)[..., :width])
    return -torch.log(-torch.log(uniform.double())).float()


def draw(shaped: Tensor, noise: Tensor, temperature: Tensor) -> Tensor:
    """One code a head, [N, H] int64; rows of temperature 0 take the largest logit, the first of equals."""
    greedy = (temperature == 0)[:, None, None]
    return torch.where(greedy, shaped, shaped + noise).argmax(dim=-1)
