"""Where the fused decoder keeps its values, and in which precision."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")
pytest.importorskip("triton", reason="needs Triton: make test-gepard")

from tests.support.fused_codec import small_archive
from tests.support.released_codec import RELEASED
from workers.nanocodec.decoder import CodecDecoder
from workers.nanocodec.fused.plan import FRAMES_PER_STEP, UnsupportedCodec, make_arena, make_plan
from workers.nanocodec.fused.precision import choose_precision, measure_range
from workers.nanocodec.fused.tiles import MeasuredTiles
from workers.nanocodec.fused.weights import columns_of, depth_of
from workers.nanocodec.open_codec import open_codec
from workers.nanocodec.streaming import StreamingDecoder

_DECODER = RELEASED.decoder


def _pasts(plan):
    yield plan.codes
    for stage in plan.stages:
        yield stage.upsampler
        for block in (*stage.dilated, *stage.skips):
            yield from block
    yield plan.post


def test_a_stream_of_the_released_codec_carries_what_the_plain_decoder_carries_in_less_than_half_a_megabyte():
    plan = make_plan(_DECODER)
    pasts = list(_pasts(plan))
    assert len(pasts) == 97
    true_channels = [32, *[c for stage in plan.stages for c in (2 * stage.channels, *[stage.channels] * 18)], 27]
    assert sum(past.reach * channels for past, channels in zip(pasts, true_channels, strict=True)) == 182_712
    assert plan.state_size * 2 < 500_000


def test_pasts_fill_a_row_without_overlap_and_the_short_ones_come_first():
    plan = make_plan(_DECODER)
    pasts = sorted(_pasts(plan), key=lambda past: past.offset)
    ends = [past.offset + past.size for past in pasts]
    assert [past.offset for past in pasts] == [0, *ends[:-1]]
    assert ends[-1] == plan.state_size
    assert {past.offset for past in plan.short} == {past.offset for past in pasts if past.reach > past.rows_per_frame}
    assert max(past.offset + past.size for past in plan.short) == plan.short_size


@pytest.mark.parametrize("num_slots", [1, 24, 512, 1000])
def test_the_memory_of_a_step_does_not_grow_with_the_slots(num_slots):
    plan = make_plan(_DECODER)
    arena = make_arena(plan, num_slots)
    assert arena.ends == (num_slots + 1) * plan.state_size
    assert arena.max_frames <= 1024
    buffers = [arena.stage_input, arena.upsampled]
    buffers += [place(branch) for place in (arena.act, arena.inner, arena.sum) for branch in range(3)]
    assert sorted(buffers) == [arena.buffers + i * plan.buffer_size * arena.max_frames for i in range(11)]
    assert arena.size - arena.ends < 600_000_000


def test_more_slots_than_offsets_reach_are_refused():
    with pytest.raises(ValueError, match="num_slots is too large"):
        make_arena(make_plan(_DECODER), 20_000)


@pytest.mark.parametrize(
    "change", [{"residual_kernels": (3, 7)}, {"dilations": (1, 13)}], ids=["two branches", "long past"]
)
def test_an_archive_that_the_kernels_do_not_know_is_refused(change):
    with pytest.raises(UnsupportedCodec):
        make_plan(replace(_DECODER, **change))


@pytest.mark.parametrize("width", [32, 64, 96, 128, 160, 224, 448, 864])
def test_tiles_divide_the_weights_of_every_width(width):
    for frames in (batch * n for batch in (1, 3, 64, 512) for n in FRAMES_PER_STEP):
        tile = MeasuredTiles().conv(frames, width)
        assert columns_of(width) % tile.columns == 0
        assert depth_of(width) % tile.depth == 0


def test_half_precision_is_chosen_where_the_weights_leave_room():
    device = torch.device("cpu")
    assert choose_precision(small_archive(), device=device) == "float16"
    assert choose_precision(small_archive(gain=60.0), device=device) == "bfloat16"


def test_the_range_is_that_of_sums_activations_and_weights():
    decoder = CodecDecoder(small_archive())
    seen = measure_range(decoder)
    largest = max(float(buffer.abs().max()) for name, buffer in decoder.named_buffers() if name.endswith("weight"))
    assert seen.weights == pytest.approx(largest)
    assert seen.activations >= 0.5 * seen.sums > 0


def test_without_a_gpu_the_plain_decoder_is_opened():
    codec = open_codec(small_archive(), 2, device=torch.device("cpu"))
    assert isinstance(codec, StreamingDecoder)
    assert codec.num_slots == 2
