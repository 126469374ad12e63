"""The embedded engine: hibari, 14 MB of English speech at 70 times real time on one core.

It needs no GPU, no download and no reference clip; its one network speaks all presets. Every call of the
network takes one short piece of text on a small pool of threads. A stream asks for its next piece only when
it has the last, so the pool's queue serves all streams in turn: a new one waits for one piece of each.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy as np
from hibari import Hibari

from shared.contracts import EngineInfo, TextBudget
from shared.errors import EngineError
from workers.engines.base import PcmChunk, SynthesisRequest
from workers.engines.hibari_finish import level, pause, trim
from workers.engines.hibari_text import Piece, pieces
from workers.engines.hibari_vocoder import FRAME_SAMPLES, SAMPLE_RATE_HZ, VoiceShape, render
from workers.engines.hibari_voices import PRESETS, SHAPES

_CAPACITY = 32
_MAX_THREADS = 4

_TEXT_BUDGET = TextBudget(minimum=10, first=50, target=120, maximum=200)
"""50 characters are spoken after 50 ms of one core, 120 after 110 ms; a lone "Hi." comes out well, too."""

_WARM_UP_TEXT = "Warming up, xyzzyqua."
"""Loads the dictionary, and with the last word the network for unknown ones."""

_NUM_PADS = 2
"""Ids that hibari puts around the phonemes."""

_NUM_SEEDS = 2**64
_NOISE_PER_PIECE = 2**64
"""Distance of two pieces in the noise generator's counter; far more than a piece draws."""


class HibariEngine:
    """Implements workers.engines.base.Engine.

    `frames` of a chunk count the model frames (12.5 ms) that are heard: without the silence cut from both
    ends, without the pause. `text_tokens` are phonemes. Sampling knobs do not apply: only the vocoder's noise
    is random, and it is drawn from the request's seed.
    """

    def __init__(self, *, num_threads: int | None = None, capacity: int = _CAPACITY) -> None:
        self._num_threads = num_threads or min(os.cpu_count() or 1, _MAX_THREADS)
        self._pool: ThreadPoolExecutor | None = None
        self._model: _Model | None = None
        self._info = EngineInfo(
            model="hibari",
            revision=version("hibari-tts"),
            sample_rate_hz=SAMPLE_RATE_HZ,
            frame_s=FRAME_SAMPLES / SAMPLE_RATE_HZ,
            languages=("en",),
            scripts=("Latin",),
            text_budget=_TEXT_BUDGET,
            presets=PRESETS,
            can_clone=False,
            can_guide=False,
            can_resume=True,
            capacity=capacity,
        )

    @property
    def info(self) -> EngineInfo:
        return self._info

    async def start(self) -> None:
        self._pool = ThreadPoolExecutor(self._num_threads, thread_name_prefix="hibari")
        self._model = await asyncio.get_running_loop().run_in_executor(self._pool, _Model)

    async def stop(self) -> None:
        pool, self._pool, self._model = self._pool, None, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)

    async def synthesize(self, request: SynthesisRequest) -> AsyncGenerator[PcmChunk, None]:
        """Speak one segment, one chunk a piece. A cancel lets the running call end and drops its result."""
        if self._pool is None or self._model is None:
            raise EngineError("the engine is not started")
        shape = SHAPES.get(request.voice.name)
        if shape is None:
            raise EngineError(f"no preset {request.voice.name!r}; there are {', '.join(SHAPES)}")
        speech = _Speech(self._model, shape, request)
        loop = asyncio.get_running_loop()
        while (chunk := await loop.run_in_executor(self._pool, speech.next_chunk)) is not None:
            yield chunk


class _Model:
    """The loaded network and its dictionary; used by all threads at once, since nothing of it changes."""

    def __init__(self) -> None:
        # The one voice in the package; any other name would be downloaded.
        self._hibari = Hibari(voice="heart", threads=1)
        piece = Piece(self.phonemize(_WARM_UP_TEXT), "end")
        # The own voice and the shaped ones take different code.
        for shape in (VoiceShape(), VoiceShape(pitch=0.9)):
            self.speak(piece, shape, seed=0, index=0)

    def phonemize(self, sentence: str) -> str:
        """Text -> phonemes."""
        phonemes: str = self._hibari.g2p(sentence)
        return phonemes

    def speak(self, piece: Piece, shape: VoiceShape, *, seed: int, index: int) -> PcmChunk | None:
        """Speak one piece, the `index`-th of its segment; None if it turns out silent."""
        ids = self._hibari.ids(piece.phonemes)
        outputs = self._hibari.sess.run(
            None, {"ids": np.array([ids], np.int64), "speed": np.array([shape.pace], np.float32)}
        )
        # Counter-based: the same in every process, and no piece depends on how many came before.
        bits = np.random.Philox(key=seed % _NUM_SEEDS, counter=index * _NOISE_PER_PIECE)
        samples = render([output[0] for output in outputs], shape, np.random.Generator(bits))
        speech = trim(samples, FRAME_SAMPLES)
        if not len(speech):
            return None
        return PcmChunk(
            samples=np.concatenate((level(speech, shape.gain_db), pause(piece.boundary, SAMPLE_RATE_HZ))),
            frames=len(speech) // FRAME_SAMPLES,
            text_tokens=len(ids) - _NUM_PADS,
        )


class _Speech:
    """One segment on its way; its calls run one after another, on any thread of the pool."""

    def __init__(self, model: _Model, shape: VoiceShape, request: SynthesisRequest) -> None:
        self._model = model
        self._shape = shape
        self._seed = request.seed
        self._pieces = enumerate(pieces(request.segment, model.phonemize))

    def next_chunk(self) -> PcmChunk | None:
        """Speak the next piece; None after the last."""
        try:
            for index, piece in self._pieces:
                chunk = self._model.speak(piece, self._shape, seed=self._seed, index=index)
                if chunk is not None:
                    return chunk
        except Exception as error:  # noqa: BLE001 - the seam to foreign code
            # No cause: its message may quote the text, which no log may show.
            raise EngineError(f"hibari failed: {type(error).__name__}") from None
        return None
