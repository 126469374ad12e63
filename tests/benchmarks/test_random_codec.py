"""The archive with random weights that measurements use is one that the reader takes."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")

from benchmarks.random_codec import write_random_codec
from workers.nanocodec.archive import read_archive
from workers.nanocodec.decoder import CodecDecoder
from workers.nanocodec.encoder import CodecEncoder


def test_a_small_random_archive_encodes_and_decodes(tmp_path):
    path = tmp_path / "random.nemo"
    write_random_codec(path, decoder_channels=32, encoder_channels=2)
    archive = read_archive(path)
    codes = CodecEncoder(archive).encode(torch.randn(3000, generator=torch.Generator().manual_seed(0)))
    samples = CodecDecoder(archive).decode(codes)
    assert samples.shape == (3 * 1024,)
    assert 0.001 < float(samples.abs().max()) <= 1.0
    assert len(codes.unique()) > 3


def test_the_same_seed_gives_the_same_weights(tmp_path):
    archives = []
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        write_random_codec(tmp_path / name, decoder_channels=32, encoder_channels=2, seed=seed)
        archives.append(read_archive(tmp_path / name).tensors["audio_encoder.post_conv.conv.bias"].tolist())
    assert archives[0] == archives[1] != archives[2]
