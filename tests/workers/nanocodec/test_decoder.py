"""The decoder equals the reference implementation on a whole sequence."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")

from workers.nanocodec.archive import read_archive
from workers.nanocodec.decoder import CodecDecoder
from workers.nanocodec.quantizer import unpack

# The reference waveforms have rms 0.25. Rounding alone, measured against float64, is 2e-6.
_TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def decoder(tiny_archive_path):
    torch.set_num_threads(1)
    return CodecDecoder(read_archive(tiny_archive_path, parts=["audio_decoder"]))


def _difference(a, b):
    assert a.shape == b.shape
    return float((a - b).abs().max())


@pytest.mark.parametrize("num_frames", [1, 2, 5, 12, 40])
def test_the_waveform_equals_the_reference(decoder, goldens, num_frames):
    samples = decoder.decode(torch.from_numpy(goldens[f"dec{num_frames}_codes"]))
    assert samples.dtype == torch.float32
    assert _difference(samples, torch.from_numpy(goldens[f"dec{num_frames}_wave"])) < _TOLERANCE


def test_a_padded_batch_equals_the_reference(decoder, goldens):
    samples = decoder.decode(unpack(torch.from_numpy(goldens["decb_packed"])))
    for row, length, expected in zip(samples, goldens["decb_wave_lens"], goldens["decb_wave"], strict=True):
        assert _difference(row[:length], torch.from_numpy(expected)[:length]) < _TOLERANCE


def test_the_output_is_clamped_and_the_reference_exercises_it(decoder, goldens):
    samples = decoder.decode(torch.from_numpy(goldens["dec40_codes"]))
    assert float(samples.abs().max()) == 1.0


def test_later_frames_never_change_earlier_samples(decoder, goldens):
    codes = torch.from_numpy(goldens["dec12_codes"]).long()
    changed = codes.clone()
    changed[:, 7:] = 0
    assert torch.equal(decoder.decode(codes)[: 7 * 1024], decoder.decode(changed)[: 7 * 1024])


def test_25_frames_of_context_are_all_that_a_frame_depends_on(decoder, goldens):
    codes = torch.from_numpy(goldens["dec40_codes"]).long()
    whole = decoder.decode(codes)
    window = decoder.decode(codes[:, -26:])
    assert _difference(window[-1024:], whole[-1024:]) < _TOLERANCE


def test_the_codec_in_bfloat16_still_follows_the_reference(decoder, goldens, tiny_archive_path):
    half = CodecDecoder(read_archive(tiny_archive_path, parts=["audio_decoder"])).to(torch.bfloat16)
    expected = torch.from_numpy(goldens["dec12_wave"])
    samples = half.decode(torch.from_numpy(goldens["dec12_codes"]))
    assert samples.dtype == torch.float32
    noise_db = 10 * torch.log10((samples - expected).square().mean() / expected.square().mean())
    assert float(noise_db) < -25


@pytest.mark.parametrize(
    ("shape", "reason"),
    [((32, 0), "no codes"), ((0, 32, 3), "no codes"), ((8, 3), "shape"), ((32,), "shape")],
)
def test_codes_of_another_shape_are_refused(decoder, shape, reason):
    with pytest.raises(ValueError, match=reason):
        decoder.decode(torch.zeros(shape, dtype=torch.int64))


def test_codes_out_of_range_are_refused(decoder):
    codes = torch.zeros(32, 2, dtype=torch.int64)
    codes[3, 1] = 6
    with pytest.raises(ValueError, match="code 3 of frame 1 is outside 0 to 5"):
        decoder.decode(codes)
