"""Clips to voices: codec encoder, then the model's compressor. A voice is a prefix of a few vectors."""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shared.clip import Clip
from shared.errors import EngineError
from workers.audio.resample import Resampler
from workers.engines.base import SpeakerProfile
from workers.gepard.compressor import MAX_REFERENCE_FRAMES, SpeakerCompressor
from workers.gepard.config import MAX_REFERENCE_S
from workers.nanocodec.archive import CodecArchive
from workers.nanocodec.config import SAMPLE_RATE_HZ
from workers.nanocodec.encoder import CodecEncoder

_METHOD = "resample, encode, 322 frames, compress: 1"
"""Part of the compressor's revision: change it with anything that changes the profile of a clip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileMaker:
    """Makes and reads profiles of one model and codec. Thread-safe: nothing of it changes."""

    encoder: CodecEncoder
    compressor: SpeakerCompressor
    device: torch.device
    model_revision: str
    compressor_revision: str

    @torch.inference_mode()
    def make(self, clip: Clip) -> SpeakerProfile:
        """The profile of at most 15 s of a clip; blocks for seconds on a CPU. Raises EngineError."""
        resampler = Resampler(clip.rate_hz, SAMPLE_RATE_HZ)
        cut = clip.samples[: int(MAX_REFERENCE_S * clip.rate_hz)]
        samples = np.concatenate((resampler.process(cut), resampler.flush()))
        try:
            # The encoder looks half a second ahead, so what follows the last frame used is encoded, too.
            codes = self.encoder.encode(torch.from_numpy(samples).to(self.device))
            prefix = self.compressor.voice_prefix(codes.t()[:MAX_REFERENCE_FRAMES])
        # What the device fails at is not among them: that is no fault of the clip, and may pass.
        except ValueError as error:
            raise EngineError(f"no voice can be made of the clip: {type(error).__name__}") from error
        return SpeakerProfile(
            model_revision=self.model_revision,
            compressor_revision=self.compressor_revision,
            kind="cloned",
            payload=prefix.float().cpu().numpy().astype("<f4").tobytes(),
        )

    def prefix(self, profile: SpeakerProfile) -> Tensor:
        """The voice [K, hidden] float32 of a profile, on the CPU. Raises EngineError for a foreign one."""
        if (profile.model_revision, profile.compressor_revision) != (self.model_revision, self.compressor_revision):
            raise EngineError("the speaker profile was made by another model")
        shape = self.compressor.queries.shape
        values = np.frombuffer(profile.payload, "<f4") if len(profile.payload) == 4 * shape.numel() else None
        if values is None or not np.isfinite(values).all():
            raise EngineError("the speaker profile is damaged")
        return torch.from_numpy(values.astype(np.float32)).view(shape)


def compressor_revision(archive: CodecArchive) -> str:
    """16 hex digits that stand for the codec's encoder and for what is done around it."""
    digest = hashlib.sha256(_METHOD.encode())
    for name in sorted(name for name in archive.tensors if name.startswith("audio_encoder.")):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(archive.tensors[name]).data)
    return digest.hexdigest()[:16]
