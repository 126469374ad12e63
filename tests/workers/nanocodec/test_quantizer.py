"""Finite scalar quantisation equals the reference implementation, and refuses what it would misread."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")

from workers.nanocodec.quantizer import Dequantizer, check_codes, pack, quantize, unpack


def _frames(num_frames=50, seed=3):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 2016, (2, 8, num_frames), generator=generator)
    return ids, unpack(ids)


def test_every_id_has_the_latents_of_the_reference(goldens):
    ids = torch.arange(2016).repeat(8, 1)
    latents = Dequantizer()(unpack(ids)).reshape(8, 4, 2016)
    for group in latents:
        assert torch.equal(group.T, torch.from_numpy(goldens["fsq_table"]))


def test_every_id_survives_unpacking_packing_and_quantising():
    ids = torch.arange(2016).repeat(8, 1)
    codes = unpack(ids)
    assert torch.equal(pack(codes), ids)
    # What the encoder would have to put out for a latent: the inverse of the bounding tanh.
    levels = torch.tensor([8, 7, 6, 6] * 8)[:, None]
    scale = (levels - 1) / 2 * (1 - 1e-3)
    offset = torch.where(levels % 2 == 0, 0.5, 0.0)
    bounded = ((codes - levels // 2 + offset) / scale).clamp(-0.9999, 0.9999)
    assert torch.equal(quantize(bounded.atanh() - (offset / scale).tan()), codes)


@pytest.mark.parametrize("name", ["dec1", "dec2", "dec5", "dec12", "dec40", "enc1", "enc5000", "enc40000"])
def test_packing_equals_the_reference(goldens, name):
    packed, codes = (torch.from_numpy(goldens[f"{name}_{kind}"]) for kind in ("packed", "codes"))
    assert torch.equal(pack(codes), packed.long())
    assert torch.equal(unpack(packed), codes.long())


@pytest.mark.parametrize("name", ["enc1", "enc1023", "enc1025", "enc5000", "enc22050", "enc40000"])
def test_quantising_equals_the_reference(goldens, name):
    codes = quantize(torch.from_numpy(goldens[f"{name}_feat"]))
    assert torch.equal(codes, torch.from_numpy(goldens[f"{name}_codes"]).long())


def test_the_ends_of_the_range_saturate():
    low, high = quantize(torch.full((32, 1), -1e30)), quantize(torch.full((32, 1), 1e30))
    assert low.flatten().tolist() == [0, 0, 0, 0] * 8
    assert high.flatten().tolist() == [7, 6, 5, 5] * 8
    assert quantize(torch.zeros(32, 1)).flatten().tolist() == [4, 3, 3, 3] * 8


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_any_integer_type_packs_alike(dtype):
    ids, codes = _frames()
    assert torch.equal(pack(codes.to(getattr(torch, dtype))), ids)


def test_half_precision_latents_are_quantised_in_single_precision():
    latents = torch.randn(32, 40, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    assert torch.equal(quantize(latents), quantize(latents.float()))


@pytest.mark.parametrize("value", [-1, 2016, 65_535])
def test_an_id_out_of_range_is_refused(value):
    """Special tokens and padding would unpack to valid-looking codes."""
    ids, _ = _frames()
    ids[1, 7, 49] = value
    with pytest.raises(ValueError, match=rf"ids lie in 0..2015, got .*{value}"):
        unpack(ids)


@pytest.mark.parametrize(("code", "value"), [(0, 8), (1, 7), (2, 6), (31, 6), (5, -1)])
def test_a_code_out_of_range_is_named(code, value):
    _, codes = _frames()
    codes[1, code, 17] = value
    with pytest.raises(ValueError, match=f"code {code} of frame 17 is outside 0 to"):
        check_codes(codes)
    with pytest.raises(ValueError, match="outside"):
        pack(codes)


@pytest.mark.parametrize("shape", [(31, 5), (8, 5), (32,), (5, 32)])
def test_codes_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="shape"):
        check_codes(torch.zeros(shape, dtype=torch.int64))


def test_floats_are_no_codes_and_no_ids():
    with pytest.raises(ValueError, match="integers"):
        check_codes(torch.zeros(32, 1))
    with pytest.raises(ValueError, match="integers"):
        unpack(torch.zeros(8, 1))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_latents_that_are_not_finite_are_refused(value):
    with pytest.raises(ValueError, match="not finite"):
        quantize(torch.full((32, 1), value))
