"""The reader takes every spelling of the real format. What it refuses is in test_archive_hostile.py."""

import gzip
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.support.codec_archive import CODEC_DATA, index_pickle
from tests.support.released_codec import RELEASED
from workers.nanocodec.archive import PARTS, read_archive
from workers.nanocodec.layout import part_tensors, quantizer_tensors


def _write(path, data):
    path.write_bytes(data)
    return path


def test_the_layout_is_that_of_the_released_codec():
    manifest = json.loads((CODEC_DATA / "manifest.json").read_text())["tensors"]
    expected = {name: (tuple(entry["shape"]), entry["dtype"]) for name, entry in manifest.items()}
    specs = quantizer_tensors()
    for part in PARTS:
        specs |= part_tensors(RELEASED, part)
    assert {name: (spec.shape, spec.dtype) for name, spec in specs.items()} == expected


def test_the_tiny_archive_is_read_and_its_training_tensors_are_left_out(tiny_archive_path):
    archive = read_archive(tiny_archive_path)
    assert archive.config.decoder.base_channels == 96
    assert archive.config.encoder.rates == (2, 2, 4, 8, 8)
    assert len(archive.tensors) == 291 + 387
    assert {array.dtype for array in archive.tensors.values()} == {np.dtype("float32")}
    assert not any(name.startswith("discriminator.") for name in archive.tensors)


def test_only_the_parts_asked_for_are_loaded(tiny_archive_path):
    archive = read_archive(tiny_archive_path, parts=["audio_decoder"])
    assert len(archive.tensors) == 387
    assert all(name.startswith("audio_decoder.") for name in archive.tensors)


def test_values_are_those_that_the_file_holds(tiny_archive_path, pieces):
    archive = read_archive(tiny_archive_path)
    for name, array in archive.tensors.items():
        assert array.tobytes() == pieces.storages[pieces.tensors[name].storage], name


def test_a_gzipped_archive_is_read(tmp_path, pieces, tiny_archive_path):
    packed = _write(tmp_path / "old.nemo", gzip.compress(tiny_archive_path.read_bytes(), 1))
    assert len(read_archive(packed).tensors) == 678


def test_a_module_state_dict_with_its_metadata_is_read(tmp_path, pieces):
    pieces.index = index_pickle(pieces.tensors, as_module_state=True)
    assert len(read_archive(_write(tmp_path / "a.nemo", pieces.archive())).tensors) == 678


def test_the_older_spelling_of_weight_norm_is_read(tmp_path, pieces, tiny_archive_path):
    pieces.tensors = {
        name.replace("parametrizations.weight.original0", "weight_g").replace(
            "parametrizations.weight.original1", "weight_v"
        ): tensor
        for name, tensor in pieces.tensors.items()
    }
    old = read_archive(_write(tmp_path / "a.nemo", pieces.archive()))
    new = read_archive(tiny_archive_path)
    assert old.tensors.keys() == new.tensors.keys()


def test_a_tensor_that_is_a_part_of_a_larger_storage_is_read(tmp_path, pieces):
    name = "audio_decoder.post_conv.conv.bias"
    pieces.set_bytes(name, np.array([5, 6, 7], "<f4").tobytes())
    pieces.change(name, storage_size=3, offset=1)
    archive = read_archive(_write(tmp_path / "a.nemo", pieces.archive()))
    assert archive.tensors[name].tolist() == [6.0]


def test_other_files_folders_and_long_names_in_the_archive_do_no_harm(tmp_path, pieces):
    path = tmp_path / "a.nemo"
    for tar_format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT):
        with tarfile.open(path, "w", format=tar_format) as archive:
            folder = tmp_path / "in" / ("x" * 60) / ("y" * 60)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "note.txt").write_text("artifact")
            for name, data in pieces.members().items():
                (tmp_path / "in" / name).write_bytes(data)
            archive.add(tmp_path / "in", arcname=".")
        assert len(read_archive(path).tensors) == 678


def test_a_missing_key_means_the_default_of_the_reference(tmp_path, pieces):
    """NeMo writes only what the training recipe set; silence about the output means tanh, not clamp."""
    pieces.config = pieces.config.replace(b"  pad_mode: zeros\n", b"")
    read_archive(_write(tmp_path / "a.nemo", pieces.archive()))
    pieces.config = pieces.config.replace(b"  output_activation: clamp\n", b"")
    with pytest.raises(Exception, match="output_activation is 'tanh', supported is clamp"):
        read_archive(_write(tmp_path / "b.nemo", pieces.archive()))


def test_reading_needs_no_pytorch(tiny_archive_path):
    """`gepard doctor` checks archives on machines without it."""
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from pathlib import Path\n"
        "from workers.nanocodec.archive import read_archive\n"
        "print(len(read_archive(Path(sys.argv[1])).tensors))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tiny_archive_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        check=False,
    )
    assert result.stdout.strip() == "678", result.stderr


def test_zeros_at_the_end_of_the_tar_are_optional(tmp_path, pieces):
    """Some writers leave them out; what counts is that both members are whole."""
    data = pieces.archive().rstrip(b"\0")
    data += bytes(-len(data) % 512)
    assert len(read_archive(_write(tmp_path / "a.nemo", data)).tensors) == 678
