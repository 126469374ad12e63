"""A damaged or hostile archive is a CheckpointError that says why; it runs nothing and takes no memory."""

import contextlib
import gzip
import io
import os
import pickle
import random
import struct
import tarfile
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from shared.errors import CheckpointError
from tests.support.codec_archive import index_pickle, tar_of
from workers.nanocodec.archive import read_archive
from workers.nanocodec.tensor_table import read_tensor_table

_BIAS = "audio_decoder.post_conv.conv.bias"
_ALPHA = "audio_decoder.post_activation.activation.snake_act.alpha"
_DIRECTION = "audio_encoder.pre_conv.conv.parametrizations.weight.original1"
_LEVELS = "vector_quantizer.fsqs.3.num_levels"

_MAX_PEAK_BYTES = 48 << 20


def _refusal(path) -> str:
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError) as refused:
            read_archive(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < _MAX_PEAK_BYTES
    assert str(path) in str(refused.value)
    return str(refused.value)


def _refusal_of(tmp_path, data: bytes) -> str:
    path = tmp_path / "hostile.nemo"
    path.write_bytes(data)
    return _refusal(path)


def _tar_with(pieces, name: str, **attributes) -> bytes:
    """The good archive with one more member in front."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(name)
        for key, value in attributes.items():
            setattr(info, key, value)
        archive.addfile(info)
    header = buffer.getvalue()[: buffer.getvalue().rstrip(b"\0").__len__()]
    return header + bytes(-len(header) % 512) + pieces.archive()


def _header(name: bytes, size_field: bytes, kind: bytes = b"0") -> bytes:
    header = bytearray(512)
    header[: len(name)] = name
    header[124:136] = size_field
    header[156:157] = kind
    header[257:265] = b"ustar\00000"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


class TestFile:
    def test_what_is_not_there_is_refused(self, tmp_path):
        assert "No such file" in _refusal(tmp_path / "absent.nemo")

    def test_a_folder_is_refused(self, tmp_path):
        assert "not a regular file" in _refusal(tmp_path)

    def test_a_pipe_is_refused_without_waiting(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        assert "not a regular file" in _refusal(tmp_path / "pipe")

    @pytest.mark.parametrize("data", [b"", b"\0" * 2048], ids=["empty", "zeros"])
    def test_nothing_is_refused(self, tmp_path, data):
        assert "has no model_config.yaml" in _refusal_of(tmp_path, data)

    @pytest.mark.parametrize("data", [b"MZ" * 400, b"\xff" * 4096, b"<html>" * 300], ids=["program", "ones", "page"])
    def test_another_format_is_refused(self, tmp_path, data):
        assert "not a tar archive" in _refusal_of(tmp_path, data)

    def test_a_file_cut_anywhere_is_refused(self, tmp_path, pieces):
        whole = pieces.archive()
        for size in [100, 700, 3000, 4000, len(whole) // 2, len(whole.rstrip(b"\0")) - 600]:
            message = _refusal_of(tmp_path, whole[:size])
            assert "truncated" in message or "has no" in message, size

    def test_a_gzip_stream_cut_short_is_refused(self, tmp_path, pieces):
        packed = gzip.compress(pieces.archive(), 1)
        assert "gzip stream is damaged" in _refusal_of(tmp_path, packed[: len(packed) // 2])

    def test_a_gzip_bomb_is_refused(self, tmp_path):
        assert "unpacks to more than" in _refusal_of(tmp_path, gzip.compress(bytes(64 << 20)))


class TestTar:
    @pytest.mark.parametrize("name", ["../model_weights.ckpt", "a/../../b", "/etc/passwd"])
    def test_a_name_that_leaves_the_archive_is_refused(self, tmp_path, pieces, name):
        assert "points outside" in _refusal_of(tmp_path, _tar_with(pieces, name))

    @pytest.mark.parametrize(
        "kind",
        [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE],
        ids=["symlink", "hardlink", "device", "pipe", "sparse"],
    )
    def test_what_is_no_plain_file_is_refused(self, tmp_path, pieces, kind):
        data = _tar_with(pieces, "model_weights.ckpt", type=kind, linkname="/etc/shadow")
        assert "is no plain file" in _refusal_of(tmp_path, data)

    @pytest.mark.parametrize("key", ["GNU.sparse.size", "GNU.sparse.map", "size"])
    def test_a_pax_header_that_changes_sizes_is_refused(self, tmp_path, pieces, key):
        data = _tar_with(pieces, "model_weights.ckpt", pax_headers={key: "99999999999"})
        assert "pax header sets" in _refusal_of(tmp_path, data)

    @pytest.mark.parametrize("record", [b"x", b"999 path=a\n", b"5 a=b\n", b"0 a=b\n", b"99999999999 a=b\n"])
    def test_a_damaged_pax_header_is_refused(self, tmp_path, record):
        data = _header(b"p", b"%011o\0" % len(record), b"x") + record + bytes(512 - len(record))
        assert "pax header is damaged" in _refusal_of(tmp_path, data)

    def test_a_header_extension_of_absurd_size_is_refused(self, tmp_path):
        data = _header(b"p", b"%011o\0" % (1 << 20), b"x") + bytes(1 << 20)
        assert "header extension claims" in _refusal_of(tmp_path, data)

    @pytest.mark.parametrize(
        ("field", "reason"),
        [
            (b"\x80" + b"\x7f" * 11, "claims more bytes than there are"),
            (b"77777777777\0", "claims more bytes than there are"),
            (b"-0000000777\0", "header number"),
            (b"\xff" * 12, "header number"),
        ],
        ids=["base-256", "octal", "minus", "negative base-256"],
    )
    def test_an_absurd_member_size_is_refused(self, tmp_path, field, reason):
        assert reason in _refusal_of(tmp_path, _header(b"model_weights.ckpt", field) + bytes(1024))

    def test_a_wrong_checksum_is_refused(self, tmp_path, pieces):
        data = bytearray(pieces.archive())
        data[10] ^= 1
        assert "checksum" in _refusal_of(tmp_path, bytes(data))

    def test_a_member_that_comes_twice_is_refused(self, tmp_path, pieces):
        assert "comes twice" in _refusal_of(tmp_path, _tar_with(pieces, "./model_config.yaml"))

    def test_endless_headers_are_refused(self, tmp_path):
        data = b"".join(_header(b"%d/" % i, b"00000000000\0", b"5") for i in range(1000))
        assert "more than 256 tar headers" in _refusal_of(tmp_path, data)

    @pytest.mark.parametrize("name", ["model_config.yaml", "model_weights.ckpt"])
    def test_a_missing_member_is_named(self, tmp_path, pieces, name):
        members = pieces.members()
        del members[name]
        assert f"has no {name}" in _refusal_of(tmp_path, tar_of(members))


class TestConfig:
    @pytest.mark.parametrize(
        ("old", "new", "reason"),
        [
            ("sample_rate: 22050", "sample_rate: 44100", "sample_rate is '44100'"),
            ("samples_per_frame: 1024", "", "samples_per_frame is missing"),
            ("num_groups: 8", "num_groups: 4", "num_groups is '4'"),
            ("  - 7\n", "  - 9\n", "num_levels_per_group"),
            ("input_dim: 32", "input_dim: 16", "input_dim is '16'"),
            ("output_activation: clamp", "output_activation: tanh", "output_activation is 'tanh'"),
            ("activation: half_snake", "activation: snake", "activation is 'snake'"),
            ("pad_mode: replicate", "pad_mode: reflect", "pad_mode is 'reflect'"),
            ("base_channels: 96", "base_channels: 1000000000000", "base_channels is '1000000000000'"),
            ("base_channels: 96", "base_channels: -96", "base_channels is '-96'"),
            ("base_channels: 96", "base_channels: 0", "base_channels is '0'"),
            ("base_channels: 96", "base_channels: 9.6e1", "base_channels is '9.6e1'"),
            ("base_channels: 96", "base_channels: ${x}", "base_channels is '${x}'"),
            ("base_channels: 96", "base_channels: 97", "cannot be halved"),
            ("base_channels: 96", "base_channels: 4096", "parameters, allowed are"),
            ("base_channels: 2\n", "base_channels: 1024\n", "ends with more than"),
            ("base_channels: 96", "base_channels: 96\n  in_kernel_size: 99999", "in_kernel_size is '99999'"),
            ("base_channels: 96", "base_channels: 96\n  in_kernel_size: 6", "even kernel"),
            (
                "base_channels: 96",
                "base_channels: 96\n  resblock_kernel_sizes: []",
                "is not a list of 1 to 8",
            ),
            ("up_sample_rates:\n  - 8", "up_sample_rates:\n  - 4", "do not multiply to 1024"),
            ("up_sample_rates:\n  - 8", "up_sample_rates:\n  - [8]", "is a list"),
            ("audio_codec_modules.CausalHiFiGANDecoder", "os.system", "supported is CausalHiFiGANDecoder"),
            ("vector_quantizer:", "no_quantizer:", "section vector_quantizer is missing"),
        ],
    )
    def test_another_codec_or_an_absurd_size_is_refused(self, tmp_path, pieces, old, new, reason):
        config = pieces.config.decode()
        assert old in config
        pieces.config = config.replace(old, new).encode()
        assert reason in _refusal_of(tmp_path, pieces.archive())

    @pytest.mark.parametrize(
        "document",
        [b"\xff\xfe\0", b"a: [", b"[" * 100_000, b"- " * 100_000, b"- 1", b"text", b"", b"{[a]: b}", b"a: *b"],
        ids=["bytes", "open", "deep brackets", "deep dashes", "list", "scalar", "empty", "list as key", "no anchor"],
    )
    def test_a_document_that_is_no_mapping_is_refused(self, tmp_path, pieces, document):
        pieces.config = document
        assert "YAML" in _refusal_of(tmp_path, pieces.archive())

    def test_a_document_of_absurd_size_is_refused(self, tmp_path, pieces):
        pieces.config += b"#" * 300_000
        assert "model_config.yaml has more than" in _refusal_of(tmp_path, pieces.archive())

    def test_nested_aliases_do_not_multiply(self, tmp_path, pieces):
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
        lines += ["merged: {<<: [*a29, *a29]}", "samples_per_frame: *a29"]
        config = pieces.config.decode().replace("samples_per_frame: 1024", "\n".join(lines))
        pieces.config = config.encode()
        assert "samples_per_frame is a list" in _refusal_of(tmp_path, pieces.archive())

    def test_a_python_tag_runs_nothing(self, tmp_path, pieces):
        mark = tmp_path / "ran"
        pieces.config = f"run: !!python/object/apply:os.system ['touch {mark}']\n".encode() + pieces.config
        path = tmp_path / "a.nemo"
        path.write_bytes(pieces.archive())
        read_archive(path)
        assert not mark.exists()


class _Payload:
    def __init__(self, path) -> None:
        self._path = path

    def __reduce__(self):
        return os.system, (f"touch {self._path}",)


class TestIndex:
    @pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
    def test_a_pickled_call_is_not_made(self, tmp_path, pieces, protocol):
        mark = tmp_path / "ran"
        pieces.index = pickle.dumps({_BIAS: _Payload(mark)}, protocol=protocol)
        message = _refusal_of(tmp_path, pieces.archive())
        assert "the index" in message
        assert not mark.exists()

    def test_a_bare_pickle_in_place_of_the_zip_is_not_loaded(self, tmp_path, pieces):
        mark = tmp_path / "ran"
        pieces.weights = pickle.dumps(_Payload(mark))
        assert "not a file of torch.save" in _refusal_of(tmp_path, pieces.archive())
        assert not mark.exists()

    @pytest.mark.parametrize(
        ("index", "reason"),
        [
            (b"\x80\x02cbuiltins\neval\n.", "asks for 'builtins.eval'"),
            (b"\x80\x02ctorch\nload\n.", "asks for 'torch.load'"),
            (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.", "makes a call"),
            (b"\x80\x02ccollections\nOrderedDict\n(K\x01tR.", "makes a call"),
            (b"\x80\x02X\x01\0\0\0aQ.", "not to a tensor's bytes"),
            (b"\x80\x02K\x01}b.", "sets attributes"),
            (b"\x80\x02K\x01X\x01\0\0\0aK\x01s.", "sets items"),
            (b"\x80\x02}K\x01K\x01s.", "key that is no string"),
            (b"\x80\x02}X\x01\0\0\0aK\x01s.", "'a' is not a tensor"),
            (b"\x80\x02}X\x01\0\0\0aNsX\x01\0\0\0aNs.", "comes twice"),
            (b"\x80\x02K\x01.", "not a state dict"),
            (b"\x80\x02}", "damaged"),
            (b"\x80\x02", "damaged"),
            (b"\x80\x02.", "damaged"),
            (b"\x80\x02t.", "damaged"),
            (b"\x80\x02h\x07.", "damaged"),
            (b"\x80\x02(K\x01u.", "damaged"),
            (b"\x80\x02c\\i\ntorch\n.", "asks for"),
            (b"\x80\x02ctorch", "damaged"),
            (b"\x80\x02X\x02\0\0\0\xff\xff.", "damaged"),
            (b"\xff\xff", "no state dict needs"),
            (b"\x80\x05\x96" + b"\xff" * 7 + b"\x7f.", "no state dict needs"),
            (b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.", "no state dict needs"),
            (b"\x80\x02}r\xff\xff\xff\x7fX" + b"\xff" * 4 + b".", "damaged"),
            (b"\x80\x02(" + b"(" * 600_000 + b".", "more than 500000 opcodes"),
            (b"\x80\x02" + bytes(5 << 20), "data.pkl has 5242882 bytes"),
        ],
    )
    def test_a_pickle_of_anything_else_is_refused(self, tmp_path, pieces, index, reason):
        pieces.index = index
        assert reason in _refusal_of(tmp_path, pieces.archive())

    def test_a_damaged_index_gives_no_other_error(self, pieces):
        """Whatever the bytes are; the zip's checksum, which stands before this, can be forged."""
        chooser = random.Random(7)
        good = index_pickle(dict(list(pieces.tensors.items())[:8]))
        for _ in range(2000):
            index = bytearray(good)
            for _ in range(chooser.choice([1, 2, 8])):
                index[chooser.randrange(len(index))] = chooser.choice(b"\0\xff}]Qtq(RcXubs.\x8a023Kae")
            with contextlib.suppress(CheckpointError):
                read_tensor_table(bytes(index))

    def test_the_real_index_cut_short_is_refused(self, tmp_path, pieces):
        pieces.index = index_pickle(pieces.tensors)[:-500]
        assert "damaged" in _refusal_of(tmp_path, pieces.archive())


class TestZip:
    def test_a_compressed_entry_is_refused(self, tmp_path, pieces):
        pieces.compression = zipfile.ZIP_DEFLATED
        assert "compressed or encrypted" in _refusal_of(tmp_path, pieces.archive())

    def test_a_second_index_is_refused(self, tmp_path, pieces):
        pieces.extra_entries["other/data.pkl"] = b"."
        assert "no single data.pkl" in _refusal_of(tmp_path, pieces.archive())

    def test_an_entry_outside_the_folder_is_refused(self, tmp_path, pieces):
        pieces.extra_entries["../../etc/passwd"] = b"."
        assert "unexpected zip entry" in _refusal_of(tmp_path, pieces.archive())

    def test_big_endian_weights_are_refused(self, tmp_path, pieces):
        pieces.byteorder = b"big"
        assert "big-endian" in _refusal_of(tmp_path, pieces.archive())

    def test_a_checkpoint_without_index_is_refused(self, tmp_path, pieces):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("weights/data/0", b"1234")
        pieces.weights = buffer.getvalue()
        assert "no single data.pkl" in _refusal_of(tmp_path, pieces.archive())

    def test_a_zip_cut_short_is_refused(self, tmp_path, pieces):
        pieces.weights = pieces.checkpoint()[:-1000]
        assert "truncated" in _refusal_of(tmp_path, pieces.archive())

    def test_a_directory_of_absurd_size_is_refused(self, tmp_path, pieces):
        size = 60 << 20
        end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFE, 0xFFFE, size, 0, 0)
        pieces.weights = bytes(size) + end
        path = tmp_path / "hostile.nemo"
        path.write_bytes(pieces.archive())
        del pieces
        assert "a header claims 62914560 bytes" in _refusal(path)

    def test_a_flipped_bit_is_found(self, tmp_path, pieces):
        largest = max(pieces.storages.values(), key=len)
        data = bytearray(pieces.checkpoint())
        data[data.index(largest) + len(largest) // 2] ^= 0x10
        pieces.weights = bytes(data)
        assert "damaged" in _refusal_of(tmp_path, pieces.archive())


class TestTensors:
    def test_a_missing_tensor_is_named(self, tmp_path, pieces):
        del pieces.tensors[_ALPHA]
        assert f"tensor '{_ALPHA}' missing" in _refusal_of(tmp_path, pieces.archive())

    @pytest.mark.parametrize(
        "name",
        ["audio_decoder.post_conv.conv.scale", "optimizer.state", "vector_quantizer.fsqs.8.num_levels"],
    )
    def test_an_extra_tensor_is_named(self, tmp_path, pieces, name):
        pieces.tensors[name] = pieces.tensors[_BIAS]
        assert f"tensor '{name}' unknown" in _refusal_of(tmp_path, pieces.archive())

    def test_a_tensor_under_both_spellings_is_refused(self, tmp_path, pieces):
        pieces.tensors["audio_encoder.pre_conv.conv.weight_v"] = pieces.tensors[_DIRECTION]
        assert "comes twice" in _refusal_of(tmp_path, pieces.archive())

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"shape": (1, 1, 3)}, "has shape [1, 1, 3], expected [1, 1, 1]"),
            ({"shape": (1, 1)}, "has shape [1, 1]"),
            ({"shape": (1 << 60, 1, 1)}, "has shape"),
            ({"dtype": "float16"}, "is float16, expected float32"),
            ({"dtype": "int32"}, "is int32, expected float32"),
            ({"offset": 1}, "claims another size"),
            ({"offset": 1 << 62}, "claims another size"),
            ({"storage_size": 1 << 40}, "claims another size"),
            ({"storage_size": 0}, "claims another size"),
            ({"storage": "absent"}, "bytes of"),
            ({"storage": "../data.pkl"}, "bytes of"),
            ({"stride": (1,)}, "not stored contiguously"),
        ],
        ids=str,
    )
    def test_a_wrong_tensor_is_named(self, tmp_path, pieces, changes, reason):
        pieces.change(_ALPHA, **changes)
        message = _refusal_of(tmp_path, pieces.archive())
        assert _ALPHA in message
        assert reason in message

    def test_a_transposed_tensor_is_refused(self, tmp_path, pieces):
        name = "audio_decoder.pre_conv.conv.parametrizations.weight.original1"
        tensor = pieces.tensors[name]
        pieces.change(name, stride=tuple(reversed(tensor.stride)))
        assert f"{name} is not stored contiguously" in _refusal_of(tmp_path, pieces.archive())

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_values_that_are_not_finite_are_refused(self, tmp_path, pieces, value):
        pieces.set_bytes(_BIAS, np.array([value], "<f4").tobytes())
        assert f"{_BIAS} holds values that are not finite" in _refusal_of(tmp_path, pieces.archive())

    def test_other_constants_of_the_quantiser_are_refused(self, tmp_path, pieces):
        pieces.set_bytes(_LEVELS, np.array([8, 5, 5, 5], "<i4").tobytes())
        assert f"{_LEVELS} is not [8, 7, 6, 6]" in _refusal_of(tmp_path, pieces.archive())

    def test_a_training_tensor_may_claim_anything(self, tmp_path, pieces):
        """It is never read, whatever its size."""
        huge = replace(pieces.tensors[_BIAS], storage="absent", storage_size=1 << 50, shape=(1 << 50,))
        pieces.tensors["discriminator.huge"] = huge
        path = tmp_path / "a.nemo"
        path.write_bytes(pieces.archive())
        assert len(read_archive(path).tensors) == 678
