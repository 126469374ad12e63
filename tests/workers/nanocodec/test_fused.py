"""The fused kernels decode what the plain decoder does. Without a GPU they run in Triton's interpreter.

A step of the interpreter takes seconds, so the codec here is small and the streams are short.
"""

import functools
from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")
pytest.importorskip("triton", reason="needs Triton: make test-gepard")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from triton import knobs

from tests.support.fused_codec import LargeTiles, quick_interpreter, small_archive
from workers.nanocodec.archive import read_archive
from workers.nanocodec.codec import Codec
from workers.nanocodec.decoder import CodecDecoder
from workers.nanocodec.fused.decoder import FusedStreamingDecoder
from workers.nanocodec.quantizer import unpack
from workers.nanocodec.slots import NoFreeSlot

# The order of a sum differs from the plain decoder's; the largest of these samples are about 0.07.
_TOLERANCE = 1e-6
_DEVICE = torch.device("cpu" if knobs.runtime.interpret else "cuda")


@pytest.fixture(scope="module", autouse=True)
def _quick_interpreter():
    with quick_interpreter() if knobs.runtime.interpret else nullcontext():
        yield


def _codes(num_frames, seed):
    generator = torch.Generator().manual_seed(seed)
    return unpack(torch.randint(0, 2016, (8, num_frames), generator=generator))


def _fused(num_slots, *, archive=None, precision="float32"):
    tiles = LargeTiles() if knobs.runtime.interpret else None
    archive = archive or small_archive()
    return FusedStreamingDecoder(archive, num_slots, device=_DEVICE, precision=precision, tiles=tiles)


@functools.cache
def _plain():
    torch.set_num_threads(1)
    return CodecDecoder(small_archive())


def _run(fused, slot, codes, chunks):
    return torch.cat([fused.step(part[None], [slot])[0].cpu() for part in codes.split(chunks, dim=-1)])


def _difference(a, b):
    assert a.shape == b.shape
    return float((a - b).abs().max())


def test_any_streams_in_any_order_and_any_number_of_frames_equal_each_alone():
    """Three of four slots: one entry more works for the idle slot. Five frames are done as four and one."""
    lengths = [6, 3, 3]
    streams = [_codes(length, seed) for seed, length in enumerate(lengths)]
    fused = _fused(4)
    slots = [fused.join() for _ in streams]
    samples = [[] for _ in streams]
    done = [0] * len(streams)
    for order, num_frames in [((2, 0, 1), 1), ((1, 2), 2), ((0,), 5)]:
        codes = torch.stack([streams[i][:, done[i] : done[i] + num_frames] for i in order])
        for i, row in zip(order, fused.step(codes, [slots[i] for i in order]), strict=True):
            samples[i].append(row.cpu())
            done[i] += num_frames
    assert done == lengths
    for parts, codes in zip(samples, streams, strict=True):
        assert _difference(torch.cat(parts), _plain().decode(codes)) < _TOLERANCE


@settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from([1, 2]), min_size=2, max_size=3))
def test_frames_in_any_pattern_equal_all_at_once(chunks):
    codes = _codes(sum(chunks), seed=11)
    fused = _fused(1)
    assert _difference(_run(fused, fused.join(), codes, chunks), _plain().decode(codes)) < _TOLERANCE


def test_what_neighbours_do_leaves_a_stream_bit_for_bit_equal():
    codes = _codes(2, seed=1).T.to(torch.uint8)

    def run(neighbour):
        fused = _fused(3)
        slots = [fused.join() for _ in range(3)]
        out = []
        for frame in range(2):
            store = torch.stack([neighbour(fused, slots, frame), codes[frame]]).to(_DEVICE)
            out.append(fused.decode_rows(store, [[0], [1], [0]], slots)[1].clone())
        return torch.cat(out)

    def garbage(fused, slots, frame):
        return torch.full((32,), 255, dtype=torch.uint8)

    def coming_and_going(fused, slots, frame):
        fused.leave(slots[0])
        slots[0] = fused.join()
        return _codes(1, seed=frame)[:, 0].to(torch.uint8)

    assert torch.equal(run(garbage), run(coming_and_going))


def test_a_reused_slot_equals_a_fresh_one_bit_for_bit():
    codes = _codes(2, seed=4)
    fused = _fused(1)
    slot = fused.join()
    expected = _run(fused, slot, codes, [2])
    garbage = torch.full((1, 32), 255, dtype=torch.uint8, device=_DEVICE)
    fused.decode_rows(garbage, [[0]], [slot])
    fused.leave(slot)
    assert fused.join() == slot
    assert torch.equal(_run(fused, slot, codes, [2]), expected)


def test_half_precision_is_near_and_nothing_is_clamped():
    codes = _codes(2, seed=5)
    fused = _fused(1, precision="float16")
    samples = _run(fused, fused.join(), codes, [2])
    exact = _plain().decode(codes)
    assert 10 * torch.log10(exact.square().mean() / (samples - exact).square().mean()) > 50
    assert fused.num_clamps() == 0


def test_values_beyond_half_precision_are_clamped_and_counted_and_never_nan():
    """A stream goes on after them: what it carries is finite."""
    fused = _fused(1, archive=small_archive(gain=60.0), precision="float16")
    samples = _run(fused, fused.join(), _codes(2, seed=6), [1, 1])
    assert fused.num_clamps() > 0
    assert bool(torch.isfinite(samples).all())
    assert bool(torch.isfinite(fused._states).all())


def test_the_goldens_are_decoded(tiny_archive_path, goldens):
    fused = _fused(1, archive=read_archive(tiny_archive_path, parts=["audio_decoder"]))
    codes = torch.from_numpy(goldens["dec2_codes"]).long()
    assert _difference(_run(fused, fused.join(), codes, [2]), torch.from_numpy(goldens["dec2_wave"])) < 1e-5


def test_frames_are_taken_from_their_rows():
    """And samples last until the next call: here they are seen before it."""
    store = _codes(4, seed=3).T.to(torch.uint8).contiguous().to(_DEVICE)
    codec: Codec = _fused(2)
    slots = [codec.join(), codec.join()]
    samples = codec.decode_rows(store, [[3, 0], [1, 3]], slots[::-1])
    for row, frames in zip(samples, [[3, 0], [1, 3]], strict=True):
        codes = store[torch.tensor(frames)].T.long().cpu()
        assert _difference(row.cpu(), _plain().decode(codes)) < _TOLERANCE


def test_warming_up_touches_no_stream():
    fused = _fused(1)
    fused._states[0] = 1.0
    fused.warm_up()
    assert bool((fused._states[0] == 1.0).all())


def test_a_refused_step_leaves_the_streams_as_they_were():
    codes = _codes(1, seed=8)[None]
    fused = _fused(2)
    slot = fused.join()
    fused._states[slot] = 1.0
    before = fused._states.clone()
    bad = codes.clone()
    bad[0, 9, 0] = 7
    for arguments, reason in [
        ((bad, [slot]), "code 9 of frame 0"),
        ((codes, [slot, slot]), "shape"),
        ((codes.expand(2, -1, -1), [slot, slot]), "repeat"),
        ((codes, [fused.idle_slot]), "carry no stream"),
    ]:
        with pytest.raises(ValueError, match=reason):
            fused.step(*arguments)
    with pytest.raises(ValueError, match="frames are uint8"):
        fused.decode_rows(torch.zeros(1, 32, device=_DEVICE), [[0]], [slot])
    assert torch.equal(fused._states, before)


def test_slots_are_handed_out_once():
    fused = _fused(2)
    assert {fused.join(), fused.join()} == {0, 1}
    with pytest.raises(NoFreeSlot, match="all 2 slots"):
        fused.join()
    fused.leave(1)
    with pytest.raises(ValueError, match="slot 1 carries no stream"):
        fused.leave(1)
    assert fused.num_free_slots == 1
