"""The network against the recorded reference, float32: logits 2e-4, states 5e-5, prefixes 1e-5."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is absent; `make test-gepard` installs it")

from workers.gepard.backbone import Span, inverse_frequencies
from workers.gepard.checkpoint import load_checkpoint
from workers.gepard.compressor import MAX_REFERENCE_FRAMES
from workers.gepard.config import read_config
from workers.gepard.decoding import Decoder
from workers.gepard.frames import check_codes, dequantise, unfold
from workers.gepard.layout import unconditional_ids
from workers.gepard.model import GepardModel
from workers.gepard.sampling import draw, guided_logits, seen_values, shape_logits, split_heads

LOGITS, STATES, PREFIX = 2e-4, 5e-5, 1e-5
CASES = ("noref_short", "ref_short", "noref_long", "ref_long", "ref_mid")

Golden = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def _inference() -> Any:
    with torch.inference_mode():
        yield


def _codes(golden: Golden, name: str) -> Any:
    return torch.from_numpy(golden[name]).long()


def _forced(model: Any, ids: list[int], prefix: Any, frames: Any, rows: int) -> tuple[Any, Any, Any]:
    """States, logits and stop logits at the start of speech and after each forced frame."""
    decoder = Decoder(model, rows)
    branch = decoder.prefill(ids, prefix, len(frames))
    states, logits, stops = [], [], []
    for frame in [None, *frames]:
        if frame is not None:
            decoder.feed([(branch, frame[None])])
        codes, stop = decoder.heads([branch])
        states.append(branch.state)
        logits.append(codes[0])
        stops.append(stop[0])
    return torch.stack(states), torch.stack(logits), torch.stack(stops)


def test_codes_unfold_and_dequantise_as_in_the_reference(golden: Golden) -> None:
    codes = unfold(torch.from_numpy(golden["unfold_packed"]), (8, 7, 6, 6))
    assert np.array_equal(codes.numpy(), golden["unfold_codes"])
    np.testing.assert_array_equal(dequantise(codes.T, (8, 7, 6, 6) * 8).numpy(), golden["dequant"])


@pytest.mark.parametrize(
    "codes",
    [torch.full((1, 32), 6), torch.full((1, 32), -1), torch.zeros((1, 31)), torch.zeros(32)],
    ids=["too large", "negative", "too few channels", "no frame axis"],
)
def test_codes_outside_the_codec_are_refused(codes: Any) -> None:
    with pytest.raises(ValueError, match="codes"):
        check_codes(codes, (8, 7, 6, 6) * 8)


@pytest.mark.parametrize(
    ("name", "reference", "frames"),
    [
        ("prefix_A", "A", 45),
        ("prefix_B", "B", 323),
        ("prefix_B_first322", "B", 322),
        ("prefix_A_first1", "A", 1),
    ],
)
def test_voice_prefixes_are_the_reference_ones(
    checkpoint: Any, golden: Golden, name: str, reference: str, frames: int
) -> None:
    codes = _codes(golden, f"ref{reference}_codes")[:frames]
    np.testing.assert_allclose(checkpoint.model.compressor(codes[None])[0], golden[name], atol=PREFIX)


def test_every_stage_of_the_compressor_is_the_reference_one(checkpoint: Any, golden: Golden) -> None:
    compressor, codes = checkpoint.model.compressor, _codes(golden, "refA_codes")[None]
    projected = compressor.input_proj(dequantise(codes, compressor.head_sizes))
    np.testing.assert_allclose(projected[0], golden["compressor_A_proj"], atol=PREFIX)
    features = compressor.features(codes)
    np.testing.assert_allclose(features[0], golden["compressor_A_feats"], atol=PREFIX)
    queries = compressor.queries[None]
    for index, block in enumerate(compressor.blocks):
        queries = block(queries, features, None)
        np.testing.assert_allclose(queries[0], golden[f"compressor_A_block{index}"], atol=PREFIX)
    np.testing.assert_allclose(compressor.final_norm(queries)[0], golden["prefix_A_qnormed"], atol=PREFIX)


def test_padding_of_a_batch_of_references_is_masked(checkpoint: Any, golden: Golden) -> None:
    codes = _codes(golden, "refA_codes")
    batch = torch.zeros((2, 50, 32), dtype=torch.int64)
    batch[0, :45], batch[1, :30] = codes, codes[:30]
    prefixes = checkpoint.model.compressor(batch, torch.from_numpy(golden["padded_mask"]))
    np.testing.assert_allclose(prefixes, golden["prefix_padded_batch"], atol=PREFIX)


def test_long_references_are_used_up_to_the_training_length(checkpoint: Any, golden: Golden) -> None:
    codes = _codes(golden, "refB_codes")
    assert len(codes) > MAX_REFERENCE_FRAMES
    np.testing.assert_allclose(
        checkpoint.model.compressor.voice_prefix(codes), golden["prefix_B_first322"], atol=PREFIX
    )


def test_an_empty_reference_is_refused(checkpoint: Any) -> None:
    with pytest.raises(ValueError, match="at least one frame"):
        checkpoint.model.compressor.voice_prefix(torch.zeros((0, 32), dtype=torch.int64))


def test_frame_embeddings_are_the_reference_ones(checkpoint: Any, golden: Golden) -> None:
    embedded = checkpoint.model.frame_embedding(_codes(golden, "tf_frames"))
    np.testing.assert_allclose(embedded, golden["tf_frame_embeds"], atol=PREFIX)


def test_each_layer_of_the_prefill_is_the_reference_one(
    checkpoint: Any, golden: Golden, facts: dict[str, Any], prefixes: dict[str | None, Any]
) -> None:
    model = checkpoint.model
    inputs = model.embed_prompt(facts["cases"]["ref_short"]["input_ids"], prefixes["A"])
    np.testing.assert_allclose(inputs, golden["prefill_inputs_ref_short"], atol=PREFIX)
    after_first: list[Any] = []
    handle = model.backbone.layers[0].register_forward_hook(lambda *call: after_first.append(call[-1]))
    cache = model.backbone.new_cache(len(inputs))
    states = model.backbone(inputs, [Span(cache, 0, len(inputs))])
    handle.remove()
    layers = np.stack([inputs, after_first[0], states])
    np.testing.assert_allclose(layers, golden["prefill_layer_hidden_ref_short"], atol=STATES)


@pytest.mark.parametrize("case", CASES)
def test_states_of_the_prompt_are_the_reference_ones(
    checkpoint: Any, golden: Golden, facts: dict[str, Any], prefixes: dict[str | None, Any], case: str
) -> None:
    inputs = checkpoint.model.embed_prompt(facts["cases"][case]["input_ids"], prefixes[facts["cases"][case]["ref"]])
    cache = checkpoint.model.backbone.new_cache(len(inputs))
    states = checkpoint.model.backbone(inputs, [Span(cache, 0, len(inputs))])
    np.testing.assert_allclose(states, golden[f"prefill_hidden_{case}"], atol=STATES)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("case", CASES)
def test_forced_frames_give_the_reference_logits(
    checkpoint: Any,
    golden: Golden,
    facts: dict[str, Any],
    prefixes: dict[str | None, Any],
    case: str,
    rows: int,
) -> None:
    ids, reference = facts["cases"][case]["input_ids"], facts["cases"][case]["ref"]
    states, logits, stops = _forced(checkpoint.model, ids, prefixes[reference], _codes(golden, "tf_frames"), rows)
    np.testing.assert_allclose(states, golden[f"tf_hidden_{case}"], atol=STATES)
    np.testing.assert_allclose(logits, golden[f"tf_logits_{case}"], atol=LOGITS)
    np.testing.assert_allclose(stops, golden[f"tf_stop_{case}"], atol=LOGITS)


def test_the_null_prefix_is_a_prefix_like_any(checkpoint: Any, golden: Golden, facts: dict[str, Any]) -> None:
    prefix = checkpoint.model.null_prefix
    np.testing.assert_array_equal(prefix, golden["null_prefix"])
    ids = facts["cases"]["noref_short"]["input_ids"]
    _, logits, stops = _forced(checkpoint.model, ids, prefix, _codes(golden, "tf_frames")[:3], rows=1)
    np.testing.assert_allclose(logits, golden["tf_logits_nullprefix_short"], atol=LOGITS)
    np.testing.assert_allclose(stops, golden["tf_stop_nullprefix_short"], atol=LOGITS)


@pytest.mark.parametrize("mode", ["empty_text", "audio_only"])
def test_guided_logits_are_the_reference_ones(
    checkpoint: Any, golden: Golden, facts: dict[str, Any], prefixes: dict[str | None, Any], mode: Any
) -> None:
    frames = _codes(golden, "tf_frames")[:5]
    ids = facts["cases"]["ref_short"]["input_ids"]
    uncond_ids = unconditional_ids(mode, checkpoint.config.special_tokens)
    _, conditional, _ = _forced(checkpoint.model, ids, prefixes["A"], frames, rows=1)
    _, unconditional, _ = _forced(checkpoint.model, uncond_ids, prefixes["A"], frames, rows=1)
    np.testing.assert_allclose(unconditional, golden[f"cfg_tf_uncond_logits_{mode}"], atol=LOGITS)
    guided = guided_logits(conditional, unconditional, torch.tensor(3.0))
    # Guidance of 3 multiplies both branches' errors: by 3 and by 2.
    np.testing.assert_allclose(guided, golden[f"cfg_tf_guided3_logits_{mode}"], atol=5 * LOGITS)


@pytest.mark.parametrize("weights", ["checkpoint", "checkpoint_bf16"], ids=["fp32", "bf16"])
@pytest.mark.parametrize("rows", [2, 8])
def test_a_row_is_the_same_bits_in_any_slot_and_company(
    request: pytest.FixtureRequest, golden: Golden, rows: int, weights: str
) -> None:
    frames = _codes(golden, "refB_codes")
    decoder = Decoder(request.getfixturevalue(weights).model, rows)

    def state(slot: int, company: int) -> Any:
        branches = [decoder.prefill([390, 40 + i, 391, 387], None, 2) for i in range(company)]
        own = decoder.prefill([390, 330, 391, 387], None, 2)
        order = [*branches[:slot], own, *branches[slot:]]
        decoder.feed(
            [(branch, frames[i : i + 1] if branch is not own else frames[-1:]) for i, branch in enumerate(order)]
        )
        return own.state

    alone = state(0, 0)
    for slot in range(rows):
        assert torch.equal(state(slot, rows - 1), alone)


def test_every_tensor_is_made_on_the_models_device(tiny: Path) -> None:
    """The meta device stands in for a GPU: an operation that mixes it with the CPU fails."""
    config = read_config(tiny)
    with torch.device("meta"):
        model = GepardModel(config)
    model.set_tables("bf16")
    decoder = Decoder(model, rows=4)
    codes = torch.zeros((3, 32), dtype=torch.int64, device="meta")
    branch = decoder.prefill([390, 391, 387], model.compressor(codes[None])[0], 3)
    decoder.feed([(branch, codes)])
    logits, stops = decoder.heads([branch, branch])
    assert {branch.state.device.type, logits.device.type, stops.device.type} == {"meta"}
    padded = split_heads(logits, config.head_sizes)
    shaped = shape_logits(
        padded,
        seen=torch.stack([seen_values(codes, 2, 8)] * 2),
        penalty=logits.new_ones(2),
        temperature=logits.new_ones(2),
        top_k=torch.tensor([0, 3], device="meta"),
    )
    assert draw(shaped, torch.zeros_like(shaped), logits.new_ones(2)).device.type == "meta"


@pytest.mark.parametrize(("dtype", "name"), [("fp32", "inv_freq_f32"), ("bf16", "inv_freq_bf16")])
def test_rotary_frequencies_may_be_rounded_to_bf16(golden: Golden, dtype: Any, name: str) -> None:
    np.testing.assert_array_equal(inverse_frequencies(32, 1e7, dtype), golden[name])


@pytest.mark.parametrize("case", ["ref_short", "noref_long"])
def test_bf16_stays_near_the_reference_in_bf16(
    tiny: Path, golden: Golden, facts: dict[str, Any], prefixes: dict[str | None, Any], case: str
) -> None:
    """Indicative: two bf16 runs of the reference itself differ by about 1 from its float32 logits."""
    model = load_checkpoint(tiny, dtype="bfloat16").model
    np.testing.assert_array_equal(model.backbone.inv_freq, golden["inv_freq_bf16"])
    prefix = None
    if facts["cases"][case]["ref"] is not None:
        prefix = model.compressor.voice_prefix(_codes(golden, "refA_codes"))
        np.testing.assert_allclose(prefix.float(), golden["bf16_prefix_A"], atol=0.05)
    _, logits, stops = _forced(model, facts["cases"][case]["input_ids"], prefix, _codes(golden, "tf_frames"), rows=1)
    np.testing.assert_allclose(logits, golden[f"bf16_tf_logits_{case}"], atol=1.1)
    np.testing.assert_allclose(stops.float(), golden[f"bf16_tf_stop_{case}"], atol=1.1)
    assert np.abs(logits.numpy() - golden[f"bf16_tf_logits_{case}"]).mean() < 0.15


def test_the_precision_of_the_rotary_frequencies_can_be_chosen(tiny: Path, golden: Golden) -> None:
    model = load_checkpoint(tiny, dtype="bfloat16", rope_freq_dtype="fp32").model
    np.testing.assert_array_equal(model.backbone.inv_freq, golden["inv_freq_f32"])
    model = load_checkpoint(tiny, rope_freq_dtype="bf16").model
    np.testing.assert_array_equal(model.backbone.inv_freq, golden["inv_freq_bf16"])
