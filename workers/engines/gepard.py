"""Gepard: cloned voices at 22.05 kHz. The model lives in the engine host (workers/host); this is a worker's part.

Text becomes tokens here, sound comes back over the host's socket, and a text that runs away is noticed
(gepard_speech). No PyTorch is loaded.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from shared.clip import Clip
from shared.contracts import EngineInfo, HostFigures
from shared.errors import EngineError
from workers.engines.base import PcmChunk, SpeakerProfile, SynthesisRequest
from workers.engines.gepard_speech import Speech
from workers.gepard.config import MAX_REFERENCE_S, read_config
from workers.gepard.tokenizer import TextTokenizer, read_tokenizer
from workers.host.client import HostClient


class GepardEngine:
    """Implements workers.engines.base.Engine over a host.

    The same request gives the same codes, alone or among others, on the same device, backend, dtype and rows; the
    sound is the same to one step of 16 bits. `frames` are model frames of 46 ms, `text_tokens` count a text once,
    without control ids and repetitions, `resume` holds the codes, 32 bytes a frame.
    """

    def __init__(self, *, host: Path, checkpoint: Path) -> None:
        """`host`: its socket. `checkpoint`: the folder that the host loads, for its tokenizer."""
        self._client = HostClient(host)
        self._checkpoint = checkpoint
        self._tokenizer: TextTokenizer | None = None

    @property
    def info(self) -> EngineInfo:
        return self._client.info

    @property
    def host(self) -> HostFigures | None:
        return self._client.figures

    @property
    def is_available(self) -> bool:
        return self._client.is_available

    async def start(self) -> None:
        """Read the tokenizer and wait for the host. Raises CheckpointError."""
        self._tokenizer = await asyncio.to_thread(_read_tokenizer, self._checkpoint)
        await self._client.start()

    async def stop(self) -> None:
        self._tokenizer = None
        await self._client.stop()

    async def profile(self, clip: Clip) -> SpeakerProfile:
        """Clone a clip, of which at most 15 s are used; some seconds on a CPU."""
        return await self._client.profile(clip, max_s=MAX_REFERENCE_S)

    async def synthesize(self, request: SynthesisRequest) -> AsyncGenerator[PcmChunk, None]:
        """Speak one segment in chunks of 0.05 to 0.7 s; all of a very short text at once, checked before."""
        if self._tokenizer is None:
            raise EngineError("the engine is not started")
        prompt = self._tokenizer.prompt(request.segment.text)
        if not prompt.num_text_tokens:
            return
        async with aclosing(Speech(self._client, request, prompt).chunks()) as chunks:
            async for chunk in chunks:
                yield chunk


def _read_tokenizer(checkpoint: Path) -> TextTokenizer:
    return read_tokenizer(checkpoint, read_config(checkpoint))
