"""The encoder gives the codes of the reference implementation, one clip at a time."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")

from workers.nanocodec.archive import read_archive
from workers.nanocodec.encoder import CodecEncoder
from workers.nanocodec.quantizer import pack

_CLIPS = [1, 1023, 1024, 1025, 5000, 22050, 40000]


@pytest.fixture(scope="module")
def encoder(tiny_archive_path):
    torch.set_num_threads(1)
    return CodecEncoder(read_archive(tiny_archive_path, parts=["audio_encoder"]))


@pytest.mark.parametrize("num_samples", _CLIPS)
def test_the_codes_equal_the_reference(encoder, goldens, num_samples):
    codes = encoder.encode(torch.from_numpy(goldens[f"enc{num_samples}_wave"]))
    assert torch.equal(codes, torch.from_numpy(goldens[f"enc{num_samples}_codes"]).long())
    assert torch.equal(pack(codes), torch.from_numpy(goldens[f"enc{num_samples}_packed"]).long())


@pytest.mark.parametrize("num_samples", _CLIPS)
def test_the_latents_equal_the_reference(encoder, goldens, num_samples):
    """The closest latent of the reference lies 2e-4 from a rounding border."""
    with torch.inference_mode():
        latents = encoder(torch.from_numpy(goldens[f"enc{num_samples}_wave"]))
    expected = torch.from_numpy(goldens[f"enc{num_samples}_feat"])
    assert float((latents[0] - expected).abs().max()) < 5e-5


def test_one_sample_more_than_a_frame_begins_a_frame(encoder):
    assert encoder.encode(torch.zeros(1024)).shape == (32, 1)
    assert encoder.encode(torch.zeros(1025)).shape == (32, 2)


def test_a_clip_alone_differs_from_the_same_clip_in_a_padded_batch(encoder, goldens):
    """Why encode takes one clip: the reference's padded batch changes the codes of the shorter one."""
    row, num_samples, num_frames = 1, int(goldens["encb_lens"][1]), int(goldens["encb_frames"][1])
    alone = pack(encoder.encode(torch.from_numpy(goldens["encb_wave"][row, :num_samples])))
    batched = torch.from_numpy(goldens["encb_packed"][row, :, :num_frames]).long()
    assert alone.shape == batched.shape
    assert not torch.equal(alone, batched)


def test_double_precision_samples_give_the_same_codes(encoder, goldens):
    samples = torch.from_numpy(goldens["enc5000_wave"])
    assert torch.equal(encoder.encode(samples.double()), encoder.encode(samples))


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (torch.zeros(0), "shape"),
        (torch.zeros(1, 100), "shape"),
        (torch.zeros(100, dtype=torch.int16), "floats"),
        (torch.tensor([0.0, float("nan")]), "not finite"),
        (torch.tensor([0.0, float("inf")]), "not finite"),
    ],
    ids=["empty", "batch", "integers", "nan", "infinity"],
)
def test_what_is_no_clip_is_refused(encoder, samples, reason):
    with pytest.raises(ValueError, match=reason):
        encoder.encode(samples)
