"""The embedded engine: hibari, 14 MB of English speech at 70 times real time on one core.

It needs no GPU, no download and no reference clip; its one network speaks all presets. Every call of the
network takes one short piece of text on a small pool of threads. A stream asks for its next piece only when
it has the last, so the pool's queue serves all streams in turn: a new one waits for one piece of each.
"""

import asyncio
import functools
import os
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import msgspec
import numpy as np
from hibari import Hibari
from numpy.typing import NDArray

from shared.clip import Clip
from shared.contracts import EngineInfo, PresetVoice, TextBudget
from shared.errors import EngineError
from workers.engines.base import PcmChunk, Samples, Speaker, SpeakerProfile, SynthesisRequest
from workers.engines.hibari_finish import level, pause, trim
from workers.engines.hibari_match import REVISION, NoVoice, Traits, settled, shape_for, traits_of
from workers.engines.hibari_text import Piece, pieces
from workers.engines.hibari_vocoder import FRAME_SAMPLES, SAMPLE_RATE_HZ, VoiceShape, render
from workers.engines.hibari_voices import PRESETS, SHAPES

_CAPACITY = 32
_MAX_THREADS = 4

_TEXT_BUDGET = TextBudget(minimum=10, first=50, target=120, maximum=200)
"""50 characters are spoken after 50 ms of one core, 120 after 110 ms; a lone "Hi." comes out well, too."""

_WARM_UP_TEXT = "Warming up, xyzzyqua."
"""Loads the dictionary, and with the last word the network for unknown ones."""

_OWN_VOICE_TEXT = (
    "It is easy to tell the depth of a well, and these days a chicken leg is a rare dish. Your call is important "
    "to us, and an agent will be with you shortly: her father gave us all our old yellow chairs."
)
"""What the network is measured by: ten seconds, every kind of vowel, of average pitch and pace."""

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
            can_match=True,
            compressor_revision=REVISION,
            can_guide=False,
            can_resume=True,
            capacity=capacity,
        )

    is_available = True
    host = None

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

    async def profile(self, clip: Clip) -> SpeakerProfile:
        """Measure a clip and shape the network's voice like it."""
        if self._pool is None or self._model is None:
            raise EngineError("the engine is not started")
        try:
            shape = await asyncio.get_running_loop().run_in_executor(self._pool, self._model.match, clip)
        except NoVoice:
            raise EngineError("the clip holds too little voiced speech to imitate") from None
        return SpeakerProfile(
            model_revision=self._info.revision,
            compressor_revision=self._info.compressor_revision,
            kind="matched",
            payload=msgspec.msgpack.encode(shape),
        )

    async def synthesize(self, request: SynthesisRequest) -> AsyncGenerator[PcmChunk, None]:
        """Speak one segment, one chunk a piece. A cancel lets the running call end and drops its result."""
        if self._pool is None or self._model is None:
            raise EngineError("the engine is not started")
        speech = _Speech(self._model, self._shape(request.voice), request)
        loop = asyncio.get_running_loop()
        while (chunk := await loop.run_in_executor(self._pool, speech.next_chunk)) is not None:
            yield chunk

    def _shape(self, voice: Speaker) -> VoiceShape:
        if isinstance(voice, PresetVoice):
            if voice.name not in SHAPES:
                raise EngineError(f"no preset {voice.name!r}; there are {', '.join(SHAPES)}")
            return SHAPES[voice.name]
        if not voice.fits(self._info):
            raise EngineError("the speaker profile was made by another revision of the engine")
        try:
            return msgspec.msgpack.decode(voice.payload, type=VoiceShape)
        except msgspec.MsgspecError:
            raise EngineError("the speaker profile is damaged") from None


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
        outputs, num_ids = self._run(piece, shape.pace)
        samples = render(outputs, shape, _noise(seed, index))
        speech = trim(samples, FRAME_SAMPLES)
        if not len(speech):
            return None
        return PcmChunk(
            samples=np.concatenate((level(speech, shape.gain_db), pause(piece.boundary, SAMPLE_RATE_HZ))),
            frames=len(speech) // FRAME_SAMPLES,
            text_tokens=num_ids - _NUM_PADS,
        )

    def match(self, clip: Clip) -> VoiceShape:
        """The shape that sounds most like a clip. Raises NoVoice."""
        wanted = traits_of(clip.samples, clip.rate_hz)
        own, own_traits = self._own_voice
        shape = shape_for(wanted, own_traits)
        return settled(shape, wanted, self._speak_as(shape), own, SAMPLE_RATE_HZ)

    @functools.cached_property
    def _own_voice(self) -> tuple[Samples, Traits]:
        """The network speaking as itself, and what a match measures of it.

        Two threads may make it twice; they get the same.
        """
        own = self._speak_as(VoiceShape())
        return own, traits_of(own, SAMPLE_RATE_HZ)

    def _speak_as(self, shape: VoiceShape) -> Samples:
        """What the network is measured by, unlevelled."""
        outputs, _ = self._run(Piece(self.phonemize(_OWN_VOICE_TEXT), "end"), shape.pace)
        return render(outputs, shape, _noise(0, 0))

    def _run(self, piece: Piece, pace: float) -> tuple[list[NDArray[np.float32]], int]:
        """The network's outputs for hibari_vocoder.render, and the number of ids they stand for."""
        ids = self._hibari.ids(piece.phonemes)
        outputs = self._hibari.sess.run(None, {"ids": np.array([ids], np.int64), "speed": np.array([pace], np.float32)})
        return [output[0] for output in outputs], len(ids)


def _noise(seed: int, index: int) -> np.random.Generator:
    """The noise of a piece. Counter-based: the same in every process, however many pieces came before."""
    return np.random.Generator(np.random.Philox(key=seed % _NUM_SEEDS, counter=index * _NOISE_PER_PIECE))


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
