"""The fused decoder at full size on a GPU: graphs of every size, exact isolation, precision."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")
pytest.importorskip("triton", reason="needs Triton: make test-gepard")

from benchmarks.random_codec import write_random_codec
from workers.nanocodec.archive import read_archive
from workers.nanocodec.config import LEVELS, NUM_GROUPS
from workers.nanocodec.decoder import CodecDecoder
from workers.nanocodec.fused.decoder import FusedStreamingDecoder
from workers.nanocodec.open_codec import open_codec

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

_NUM_SLOTS = 72


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU")
    path = tmp_path_factory.mktemp("codec") / "codec.nemo"
    write_random_codec(path)
    return read_archive(path, parts=["audio_decoder"])


@pytest.fixture(scope="module")
def exact(archive):
    return CodecDecoder(archive).to("cuda")


@pytest.fixture(scope="module")
def fused(archive):
    decoder = FusedStreamingDecoder(archive, _NUM_SLOTS, device=torch.device("cuda"), precision="float16")
    decoder.warm_up()
    return decoder


@pytest.fixture
def slots(fused):
    taken = [fused.join() for _ in range(_NUM_SLOTS)]
    yield taken
    for slot in taken:
        fused.leave(slot)


def _store(rows, seed):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    levels = torch.tensor(LEVELS * NUM_GROUPS, device="cuda")
    return (torch.rand(rows, 32, generator=generator, device="cuda") * levels).to(torch.uint8)


def _snr_db(samples, reference):
    return float(10 * torch.log10(reference.square().mean(-1) / (samples - reference).square().mean(-1)).min())


@pytest.mark.parametrize(
    "sizes",
    [[(1, 1)] * 12, [(3, 4), (3, 8)], [(70, 1), (70, 2), (70, 1), (70, 8)], [(17, 3), (17, 9)], [(72, 16)]],
    ids=["one", "few", "many", "odd", "larger than a step"],
)
def test_steps_of_every_size_are_near_the_exact_decoder(fused, slots, exact, sizes):
    streams, total = sizes[0][0], sum(frames for _, frames in sizes)
    store = _store(streams * total, seed=streams)
    parts, done = [], 0
    for _, frames in sizes:
        rows = [[stream * total + done + i for i in range(frames)] for stream in range(streams)]
        parts.append(fused.decode_rows(store, rows, slots[:streams]).clone())
        done += frames
    reference = exact.decode(store.view(streams, total, 32).transpose(1, 2).long())
    assert _snr_db(torch.cat(parts, dim=1), reference) > 58
    assert fused.num_clamps() == 0


def test_what_neighbours_do_leaves_a_stream_bit_for_bit_equal(fused, slots):
    frames = _store(8, seed=1)

    def run(neighbour):
        fused.reset(slots[20])
        out = []
        for step in range(4):
            store = torch.cat((frames[2 * step : 2 * step + 2], neighbour(step)))
            rows = [[2, 3]] * 20 + [[0, 1]] + [[3, 2]] * 43
            out.append(fused.decode_rows(store, rows, slots[:64])[20].clone())
        return torch.cat(out)

    def garbage(step):
        return torch.full((2, 32), 255, dtype=torch.uint8, device="cuda")

    def restarting(step):
        fused.reset(slots[step])
        return _store(2, seed=step)

    assert torch.equal(run(garbage), run(restarting))


def test_a_reused_slot_equals_a_fresh_one_bit_for_bit(fused, slots):
    store = _store(6, seed=2)

    def run(slot):
        return torch.cat([fused.decode_rows(store, [[i, i + 1]], [slot])[0].clone() for i in (0, 2, 4)])

    first = run(slots[0])
    fused.leave(slots[0])
    assert fused.join() == slots[0]
    assert torch.equal(run(slots[0]), first)


def test_a_step_after_warming_up_takes_no_memory_of_the_device(fused, slots):
    store = _store(64, seed=3)
    fused.decode_rows(store, [[0, 1]] * 40, slots[:40])
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for frames in (1, 2, 4, 8):
        fused.decode_rows(store, [list(range(frames))] * 40, slots[:40])
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def test_bfloat16_is_near_too(archive, exact):
    fused = FusedStreamingDecoder(archive, 4, device=torch.device("cuda"), precision="bfloat16")
    fused.warm_up()
    store = _store(4 * 20, seed=4)
    slots = [fused.join() for _ in range(4)]
    rows = torch.arange(80).view(4, 20)
    parts = [fused.decode_rows(store, rows[:, i : i + 4].tolist(), slots).clone() for i in range(0, 20, 4)]
    assert _snr_db(torch.cat(parts, dim=1), exact.decode(store.view(4, 20, 32).transpose(1, 2).long())) > 42


def test_float32_is_exact(archive, exact):
    fused = FusedStreamingDecoder(archive, 1, device=torch.device("cuda"), precision="float32")
    fused.warm_up()
    store = _store(4, seed=5)
    samples = fused.decode_rows(store, [[0, 1, 2, 3]], [fused.join()])
    assert float((samples - exact.decode(store.T[None].long())).abs().max()) < 1e-5


def test_the_fused_decoder_is_opened_where_there_is_a_gpu(archive):
    codec = open_codec(archive, 1, device=torch.device("cuda"))
    assert isinstance(codec, FusedStreamingDecoder)
    assert codec.precision == "float16"
