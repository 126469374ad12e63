"""The decoder that suits the machine."""

import importlib.util

import structlog
import torch

from workers.nanocodec.archive import CodecArchive
from workers.nanocodec.codec import Codec
from workers.nanocodec.decoder import CodecDecoder
from workers.nanocodec.fused.plan import UnsupportedCodec, make_plan
from workers.nanocodec.streaming import StreamingDecoder

_log = structlog.get_logger(__name__)


def open_codec(archive: CodecArchive, num_slots: int, *, device: torch.device) -> Codec:
    """Fused kernels on an NVIDIA GPU, plain PyTorch elsewhere and for what the kernels do not know; logs which.

    Call `warm_up` before the first stream that counts. Raises ValueError for num_slots < 1 or beyond reason.
    """
    reason = _why_plain(archive, device)
    _log.info("codec_opened", kind="plain" if reason else "fused", reason=reason, num_slots=num_slots)
    if reason is None:
        # Triton is there with CUDA builds of PyTorch only.
        from workers.nanocodec.fused.decoder import FusedStreamingDecoder  # noqa: PLC0415

        return FusedStreamingDecoder(archive, num_slots, device=device)
    return StreamingDecoder(CodecDecoder(archive).to(device), num_slots)


def _why_plain(archive: CodecArchive, device: torch.device) -> str | None:
    if device.type != "cuda" or torch.version.hip is not None:
        return "no NVIDIA GPU"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    try:
        make_plan(archive.config.decoder)
    except UnsupportedCodec as error:
        return str(error)
    return None
