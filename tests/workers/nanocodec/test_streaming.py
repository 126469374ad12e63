"""A stream decoded in chunks, among others, equals the same codes decoded alone and at once."""

import random

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")

from workers.nanocodec.archive import read_archive
from workers.nanocodec.codec import Codec
from workers.nanocodec.decoder import CodecDecoder
from workers.nanocodec.quantizer import unpack
from workers.nanocodec.slots import NoFreeSlot
from workers.nanocodec.streaming import StreamingDecoder

# In float32 the order of a sum, and so its last bits, depend on the chunk size and the processor: 1.9e-6 on one
# with AVX2, 2.1e-6 with SSE 4.1. That the state itself is exact shows in float64, where nothing is left but the
# rounding of the output to float32.
_SINGLE = 3e-6
_DOUBLE = 1e-7

_CHUNKS = {
    "1": [1] * 40,
    "3": [3] * 13 + [1],
    "4": [4] * 10,
    "16": [16, 16, 8],
    "growing": [1, 1, 2, 4, 8, 16, 8],
    "shrinking": [16, 8, 8, 4, 2, 1, 1],
}


@pytest.fixture(scope="module", params=["float32", "float64"])
def decoder(request, tiny_archive_path):
    torch.set_num_threads(1)
    decoder = CodecDecoder(read_archive(tiny_archive_path, parts=["audio_decoder"]))
    return decoder.to(getattr(torch, request.param))


@pytest.fixture(scope="module")
def tolerance(decoder):
    return _SINGLE if decoder.dtype == torch.float32 else _DOUBLE


def _codes(num_frames, seed):
    generator = torch.Generator().manual_seed(seed)
    return unpack(torch.randint(0, 2016, (8, num_frames), generator=generator))


def _difference(a, b):
    assert a.shape == b.shape
    return float((a - b).abs().max())


def _run(streaming, slot, codes, chunks):
    parts = codes.split(chunks, dim=-1)
    return torch.cat([streaming.step(part[None], [slot])[0] for part in parts])


@pytest.mark.parametrize("chunks", _CHUNKS.values(), ids=_CHUNKS.keys())
def test_chunks_equal_decoding_at_once(decoder, tolerance, goldens, chunks):
    codes = torch.from_numpy(goldens["dec40_codes"]).long()
    streaming = StreamingDecoder(decoder, num_slots=1)
    samples = _run(streaming, streaming.join(), codes, chunks)
    assert samples.dtype == torch.float32
    assert _difference(samples, decoder.decode(codes)) < tolerance
    assert _difference(samples, torch.from_numpy(goldens["dec40_wave"])) < 1e-5


def test_streams_that_join_and_leave_at_any_step_equal_each_alone(decoder, tolerance):
    """A random schedule: 12 streams of different lengths through 4 slots, chunks of 1, 2 and 4 frames."""
    chooser = random.Random(5)
    waiting = [_codes(chooser.randint(3, 14), seed) for seed in range(12)]
    expected = [decoder.decode(codes) for codes in waiting]
    streaming = StreamingDecoder(decoder, num_slots=4)
    todo = list(enumerate(waiting))
    active: dict[int, tuple[int, object]] = {}  # slot -> stream, codes left
    samples = [[] for _ in waiting]
    while todo or active:
        while todo and streaming.num_free_slots and chooser.random() < 0.7:
            stream, codes = todo.pop(0)
            active[streaming.join()] = (stream, codes)
        num_frames = chooser.choice([1, 2, 4])
        batch = [slot for slot, (_, left) in active.items() if left.shape[-1] >= num_frames]
        chooser.shuffle(batch)
        if not batch:
            batch, num_frames = list(active), 1
        if not batch:
            continue
        codes = torch.stack([active[slot][1][:, :num_frames] for slot in batch])
        for slot, row in zip(batch, streaming.step(codes, batch), strict=True):
            stream, left = active[slot]
            samples[stream].append(row)
            active[slot] = (stream, left[:, num_frames:])
            if left.shape[-1] == num_frames:
                streaming.leave(slot)
                del active[slot]
    for parts, whole in zip(samples, expected, strict=True):
        assert _difference(torch.cat(parts), whole) < tolerance


def test_what_neighbours_do_leaves_a_stream_bit_for_bit_equal(decoder):
    """The batch shape is the same, so not even rounding may differ."""
    codes = _codes(6, seed=1)

    def run(neighbour):
        streaming = StreamingDecoder(decoder, num_slots=3)
        slots = [streaming.join() for _ in range(3)]
        out = []
        for frame in range(6):
            batch = torch.zeros(3, 32, 1, dtype=torch.int64)
            batch[1] = codes[:, frame : frame + 1]
            batch[0], batch[2] = neighbour(streaming, slots, frame)
            out.append(streaming.advance(batch, torch.tensor(slots))[1])
        return torch.cat(out)

    def silent(streaming, slots, frame):
        return 0, 0

    def garbage(streaming, slots, frame):
        return 2**30, -(2**30)

    def restarting(streaming, slots, frame):
        streaming.leave(slots[0])
        slots[0] = streaming.join()
        return _codes(1, seed=frame), _codes(1, seed=100 + frame)

    quiet = run(silent)
    assert torch.equal(run(garbage), quiet)
    assert torch.equal(run(restarting), quiet)


def test_streams_that_rest_keep_their_place(decoder, tolerance):
    first, second = _codes(6, seed=1), _codes(9, seed=2)
    streaming = StreamingDecoder(decoder, num_slots=2)
    a, b = streaming.join(), streaming.join()
    head = streaming.step(first[None, :, :3], [a])[0]
    _run(streaming, b, second, [4, 5])
    tail = streaming.step(first[None, :, 3:], [a])[0]
    assert _difference(torch.cat((head, tail)), decoder.decode(first)) < tolerance


@pytest.mark.parametrize("leftover", [5, 2**30], ids=["codes", "garbage"])
def test_a_reused_slot_equals_a_fresh_one_bit_for_bit(decoder, leftover):
    codes = _codes(5, seed=4)
    fresh = StreamingDecoder(decoder, num_slots=1)
    expected = _run(fresh, fresh.join(), codes, [2, 3])
    used = StreamingDecoder(decoder, num_slots=1)
    slot = used.join()
    used.advance(torch.full((1, 32, 7), leftover), torch.tensor([slot]))
    used.leave(slot)
    assert used.join() == slot
    assert torch.equal(_run(used, slot, codes, [2, 3]), expected)


def test_frames_of_a_store_equal_the_same_codes_in_a_tensor(decoder):
    """Rows in any order, some of them for two streams."""
    store = _codes(6, seed=3).T.to(torch.uint8).contiguous()
    rows = [[4, 0, 4], [5, 1, 0]]
    codec: Codec = StreamingDecoder(decoder, num_slots=2)
    samples = codec.decode_rows(store, rows, [codec.join(), codec.join()])
    expected = StreamingDecoder(decoder, num_slots=2)
    slots = [expected.join(), expected.join()]
    assert torch.equal(samples, expected.step(store[torch.tensor(rows)].long().transpose(1, 2), slots))


def test_warming_up_touches_no_stream(decoder):
    codes = _codes(2, seed=3)[None]
    streaming = StreamingDecoder(decoder, num_slots=1)
    slot = streaming.join()
    streaming.step(codes, [slot])
    before = streaming._store[slot].clone()
    streaming.warm_up()
    assert torch.equal(streaming._store[slot], before)


def test_padding_entries_share_the_idle_slot_and_change_nothing(decoder, tolerance):
    codes = _codes(4, seed=6)
    streaming = StreamingDecoder(decoder, num_slots=2)
    slots = torch.tensor([streaming.idle_slot, streaming.join(), streaming.idle_slot, streaming.idle_slot])
    rows = [streaming.advance(codes[:, i : i + 1].expand(4, -1, -1), slots)[1] for i in range(codes.shape[-1])]
    assert _difference(torch.cat(rows), decoder.decode(codes)) < tolerance


def test_the_store_keeps_its_address(decoder):
    """A captured CUDA graph reads and writes there for ever."""
    streaming = StreamingDecoder(decoder, num_slots=2)
    address = streaming._store.data_ptr()
    for chunks in ([1, 1, 2], [3, 1]):
        slot = streaming.join()
        _run(streaming, slot, _codes(4, seed=7), chunks)
        streaming.leave(slot)
        streaming.reset(slot)
    assert streaming._store.data_ptr() == address


def test_a_step_reads_nothing_back_from_the_device(tiny_archive_path):
    """Tensors on the meta device have no values: reading one, as a wait for a GPU does, is an error."""
    archive = read_archive(tiny_archive_path, parts=["audio_decoder"])
    streaming = StreamingDecoder(CodecDecoder(archive).to("meta"), num_slots=2)
    codes = torch.zeros(2, 32, 3, dtype=torch.int64, device="meta")
    assert streaming.advance(codes, torch.zeros(2, dtype=torch.int64, device="meta")).shape == (2, 3072)


def test_a_refused_step_leaves_the_streams_as_they_were(decoder):
    codes = _codes(2, seed=8)[None]
    streaming = StreamingDecoder(decoder, num_slots=2)
    slot = streaming.join()
    streaming.step(codes, [slot])
    before = streaming._store.clone()
    bad = codes.clone()
    bad[0, 9, 0] = 7
    for arguments, reason in [
        ((bad, [slot]), "code 9 of frame 0"),
        ((codes, [slot, slot]), "shape"),
        ((codes.expand(2, -1, -1), [slot, slot]), "repeat"),
        ((codes.expand(2, -1, -1), [slot, 1 - slot]), "carry no stream"),
        ((codes, [streaming.idle_slot]), "carry no stream"),
        ((codes, [-1]), "carry no stream"),
        ((codes[0], [slot]), "shape"),
        ((codes[..., :0], [slot]), "shape"),
        ((codes[:0], []), "shape"),
    ]:
        with pytest.raises(ValueError, match=reason):
            streaming.step(*arguments)
    assert torch.equal(streaming._store, before)


def test_slots_are_handed_out_once(decoder):
    streaming = StreamingDecoder(decoder, num_slots=2)
    slots = {streaming.join(), streaming.join()}
    assert slots == {0, 1}
    with pytest.raises(NoFreeSlot, match="all 2 slots"):
        streaming.join()
    streaming.leave(1)
    with pytest.raises(ValueError, match="slot 1 carries no stream"):
        streaming.leave(1)
    assert streaming.num_free_slots == 1
    assert streaming.join() == 1


def test_a_decoder_without_slots_is_refused(decoder):
    with pytest.raises(ValueError, match="num_slots"):
        StreamingDecoder(decoder, num_slots=0)


@pytest.mark.gpu
def test_a_step_can_be_captured_in_a_cuda_graph(tiny_archive_path):
    decoder = CodecDecoder(read_archive(tiny_archive_path, parts=["audio_decoder"])).cuda()
    codes = _codes(8, seed=9)
    streaming = StreamingDecoder(decoder, num_slots=3)
    static_codes = torch.zeros(2, 32, 2, dtype=torch.int64, device="cuda")
    static_slots = torch.full((2,), streaming.idle_slot, device="cuda")
    streaming.advance(static_codes, static_slots)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = streaming.advance(static_codes, static_slots)
    static_slots[1] = streaming.join()
    rows = []
    for part in codes.split(2, dim=-1):
        static_codes[1] = part
        graph.replay()
        rows.append(output[1].clone())
    # TF32 is off, but cuDNN chooses its algorithms by shape.
    assert _difference(torch.cat(rows), decoder.decode(codes)) < 2e-5
