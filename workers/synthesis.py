"""One speech job, from the hand-over to its last event: engine, tempo, rate, encoder, reply stream."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from shared.broker.events import ClientTooSlow, ReplyGone, ReplyWriter
from shared.contracts import Audio, Done, Failed, PresetVoice, SpeechJob, Started, Timings, Usage, WorkerId
from shared.errors import EngineBroken, EngineError, EngineLost
from shared.settings import LimitsSettings
from shared.telemetry import get_logger
from workers.audio.chain import ReplyChain
from workers.engines.base import Engine, PcmChunk, Samples, Speaker, SynthesisRequest
from workers.prefetch import prefetch
from workers.profile_job import ClipGone, ProfileSource
from workers.resume import ResumeShares
from workers.totals import TotalsCounter

# Seconds of audio per event: the first small for an early first sound, the later ones larger for less work.
_FIRST_EVENT_S = 0.1
_LARGEST_EVENT_S = 1.0
_LONGEST_PIECE = 1.5

_PREFETCH_CHUNKS = 4
# A gateway that cannot be told of a failure hears of it when Redis answers again, for so long.
_NUM_TELLS = 10
_TELL_EVERY_S = 0.5

# Encoding is short work; more threads than this only compete with the engine for the cores.
_NUM_ENCODER_THREADS = 2

_FAILURES = frozenset({"engine_error", "engine_lost", "engine_stalled", "internal_error", "redis_error"})
"""Outcomes that are the worker's own fault, not the client's or the operator's wish."""

T = TypeVar("T")
log = get_logger()


def segment_seed(seed: int, index: int) -> int:
    """The seed of one segment: different for each, the same in every attempt. 63 bits."""
    digest = hashlib.blake2b(f"{seed}:{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


class EventRamp:
    """Cuts PCM into the pieces that become events, each twice as long as the one before, up to some 1 s."""

    def __init__(self, rate_hz: int) -> None:
        self._size = max(1, round(_FIRST_EVENT_S * rate_hz))
        self._largest = round(_LARGEST_EVENT_S * rate_hz)

    def cut(self, samples: Samples) -> Iterator[Samples]:
        """Pieces of `samples` [n], in order. No short rest: it would cost as much as a whole event."""
        start = 0
        while start < len(samples):
            left = len(samples) - start
            size = left if left < _LONGEST_PIECE * self._size else self._size
            yield samples[start : start + size]
            start += size
            self._size = min(2 * self._size, self._largest)


class EngineStalled(Exception):
    """The engine gave no sound of a reply for too long."""


class _Silence(PcmChunk):
    """A pause that the text asks for: it is as long at any speed."""


@dataclass(slots=True)
class _Progress:
    """What one attempt has done so far; times are `time.perf_counter` seconds."""

    began: float = field(default_factory=time.perf_counter)
    engine_asked: float | None = None
    engine_first: float | None = None
    audio_first: float | None = None
    num_samples: int = 0
    text_tokens: int = 0
    frames: int = 0
    events: int = 0
    packets: int = 0
    unsent_s: float = 0.0
    """Seconds of sound given to the encoder since the last event."""
    runaways: int = 0

    def add(self, chunk: PcmChunk) -> None:
        if self.engine_first is None and chunk.frames:
            self.engine_first = time.perf_counter()
        self.num_samples += len(chunk.samples)
        self.frames += chunk.frames
        self.text_tokens += chunk.text_tokens
        self.runaways += chunk.runaways

    def ms_since_start(self, moment: float | None) -> float:
        return 1000 * ((moment if moment is not None else time.perf_counter()) - self.began)

    @property
    def engine_first_ms(self) -> float | None:
        """From the call of the engine to its first chunk, if there was one."""
        if self.engine_asked is None or self.engine_first is None:
            return None
        return 1000 * (self.engine_first - self.engine_asked)

    def timings(self) -> Timings:
        """For a reply that had audio."""
        return Timings(
            engine_first_ms=self.engine_first_ms or 0.0,
            first_audio_ms=self.ms_since_start(self.audio_first),
            total_ms=self.ms_since_start(None),
        )


class SpeechService:
    """Serves speech jobs with one engine."""

    def __init__(
        self, redis: Redis, engine: Engine, profiles: ProfileSource, worker: WorkerId, limits: LimitsSettings
    ) -> None:
        self._redis = redis
        self._engine = engine
        self._profiles = profiles
        self._worker = worker
        self._limits = limits
        self._encoders = ThreadPoolExecutor(_NUM_ENCODER_THREADS, thread_name_prefix="encode")
        self._writers: set[ReplyWriter] = set()
        self._last_chunk = time.monotonic()
        self.totals = TotalsCounter()
        self.stopping = False
        """Set before running streams are cancelled because the worker ends: their gateways then move on."""
        self.broken = asyncio.Event()
        """Set when the engine cannot serve any more."""

    def close(self) -> None:
        """Free the encoder threads; call it after the last stream has ended."""
        self._encoders.shutdown(wait=False, cancel_futures=True)

    async def touch(self) -> None:
        """Keep the replies of streams whose engine is silent from expiring."""
        for writer in tuple(self._writers):
            await writer.touch()

    async def serve(self, job: SpeechJob) -> None:
        """Run one attempt to its end. Raises nothing but CancelledError."""
        writer = ReplyWriter(self._redis, job, ttl_s=self._limits.reply_ttl_s, max_bytes=self._limits.stream_max_bytes)
        self._writers.add(writer)
        progress = _Progress()
        outcome = "done"
        with (
            self.totals.stream(),
            structlog.contextvars.bound_contextvars(
                job_id=job.id, attempt=job.attempt, model=job.model, worker=self._worker
            ),
        ):
            try:
                outcome = await self._attempt(job, writer, progress)
            except asyncio.CancelledError:
                outcome = "stopped" if self.stopping else "cancelled"
                if self.stopping:
                    # The last word of a stream is not lost to the cancel that ended it.
                    await asyncio.shield(
                        self._fail(writer, "worker_stopping", "the worker that made this speech was stopped")
                    )
                raise
            except (RedisError, OSError) as error:
                outcome = "redis_error"
                log.warning("reply_not_written", error=type(error).__name__)
                await self._give_back(writer)
            finally:
                self._writers.discard(writer)
                if outcome in _FAILURES:
                    self.totals.failed()
                log.info(
                    "speech_job",
                    outcome=outcome,
                    segments=len(job.segments),
                    format=job.format.value,
                    runaways=progress.runaways,
                    audio_s=round(progress.num_samples / self._engine.info.sample_rate_hz, 3),
                    engine_first_ms=progress.engine_first_ms and round(progress.engine_first_ms, 1),
                    run_ms=round(progress.ms_since_start(None), 1),
                )

    async def _attempt(self, job: SpeechJob, writer: ReplyWriter, progress: _Progress) -> str:
        """Speak and report; returns the outcome for the log."""
        edition = self._engine.info.edition
        if time.time() > job.deadline or not await writer.begin(Started(worker=self._worker, edition=edition)):
            return "unwanted"
        if job.resume is not None and job.resume.edition not in ("", edition):
            # It would go on in another take: other noise, other lengths, and no seam that fits.
            return await self._fail(writer, "other_edition", "this worker's engine is not the one that began")
        try:
            await self._speak(job, writer, progress)
        except ReplyGone:
            return "reader_gone"
        except (ClipGone, ClientTooSlow, EngineError, EngineStalled) as error:
            return await self._fail(writer, *self._refusal(error))
        except (RedisError, OSError):
            raise
        except Exception:
            log.exception("speech_failed")
            return await self._fail(writer, "internal_error", "speech could not be made")
        return "done"

    def _refusal(self, error: ClipGone | ClientTooSlow | EngineError | EngineStalled) -> tuple[str, str]:
        """Code and message of what ended the attempt; notes an engine that cannot go on."""
        match error:
            case ClipGone():
                return "profile_unavailable", "the voice was deleted, or is not ready; try again"
            case ClientTooSlow():
                return "client_too_slow", "the client took the audio too slowly"
            case EngineStalled():
                log.error("engine_stalled", after_s=self._limits.engine_stall_timeout_s)
                if time.monotonic() - self._last_chunk >= self._limits.engine_stall_timeout_s:
                    # Nor has any other stream heard of it.
                    self.broken.set()
                return "engine_stalled", "the speech engine came to a halt"
            case EngineLost():
                return "engine_lost", "the process with the model was lost"
            case EngineBroken():
                log.error("engine_failed", exc_info=error)
                self.broken.set()
                return "engine_lost", "the process with the model was lost"
            case _:
                log.error("engine_failed", exc_info=error)
                return "engine_error", "the speech engine failed on this request"

    async def _speak(self, job: SpeechJob, writer: ReplyWriter, progress: _Progress) -> None:
        loop = asyncio.get_running_loop()
        voice = job.voice
        speaker: Speaker = voice if isinstance(voice, PresetVoice) else await self._profiles.get(voice.sha256)
        rate_hz = self._engine.info.sample_rate_hz
        chain = ReplyChain(
            engine_rate_hz=rate_hz,
            audio_format=job.format,
            sample_rate_hz=job.sample_rate_hz,
            speed=job.speed,
            bit_rate=job.bit_rate,
        )
        ramp = EventRamp(rate_hz)
        shares = ResumeShares(job.resume.state if job.resume is not None else b"")
        async with (
            aclosing(_chunks(self._engine, job, speaker, shares)) as source,
            # The first chunk is sent before the second is asked for: nothing competes with the first sound.
            aclosing(_first_then_prefetched(source)) as chunks,
        ):
            progress.engine_asked = time.perf_counter()
            async for segment, chunk in _in_time(chunks, self._limits.engine_stall_timeout_s):
                self._last_chunk = time.monotonic()
                progress.add(chunk)
                self.totals.made(frames=chunk.frames, audio_s=len(chunk.samples) / rate_hz, runaways=chunk.runaways)
                shares.add(segment, chunk.resume)
                is_silence = isinstance(chunk, _Silence)
                feed, tempo = (chain.feed_unstretched, 1.0) if is_silence else (chain.feed, job.speed)
                for piece in ramp.cut(chunk.samples):
                    progress.unsent_s += len(piece) / rate_hz / tempo
                    packets = await loop.run_in_executor(self._encoders, feed, piece)
                    await self._send(job, writer, progress, packets, shares)
        if progress.frames == 0:
            await self._fail(writer, "nothing_to_speak", "the model found nothing to speak in the input")
            return
        packets = await loop.run_in_executor(self._encoders, chain.finish)
        await self._send(job, writer, progress, packets, shares)
        usage = Usage(input_tokens=progress.text_tokens, output_tokens=progress.frames)
        await writer.write(Done(usage=usage, timings=progress.timings()))

    async def _send(
        self, job: SpeechJob, writer: ReplyWriter, progress: _Progress, packets: list[bytes], shares: ResumeShares
    ) -> None:
        """Write packets as one event, less those a resumed client has."""
        delivered = job.resume.packets if job.resume is not None else 0
        skip = max(0, delivered - progress.packets)
        progress.packets += len(packets)
        if not packets:
            return
        # A client that has the first packets of an event gets the sound of the others.
        audio_s, progress.unsent_s = progress.unsent_s * max(0, 1 - skip / len(packets)), 0.0
        packets = packets[skip:]
        if not packets:
            return
        await writer.write(
            Audio(
                seq=progress.events,
                packets=len(packets),
                data=b"".join(packets),
                resume=shares.take(),
                audio_s=audio_s,
            )
        )
        progress.events += 1
        if progress.audio_first is None:
            progress.audio_first = time.perf_counter()

    async def _give_back(self, writer: ReplyWriter) -> None:
        """After a write that did not arrive, let another attempt go on: the gateway sees this worker alive."""
        for _ in range(_NUM_TELLS):
            await asyncio.sleep(_TELL_EVERY_S)
            with contextlib.suppress(RedisError, OSError):
                await self._fail(writer, "broker_lost", "the worker lost the message broker")
                return

    async def _fail(self, writer: ReplyWriter, code: str, message: str) -> str:
        """End the attempt; returns the code."""
        # Gone: nobody reads it. Too slow: it is written all the same.
        with contextlib.suppress(ReplyGone, ClientTooSlow):
            await writer.write(Failed(code=code, message=message))
        return code


async def _chunks(
    engine: Engine, job: SpeechJob, speaker: Speaker, shares: ResumeShares
) -> AsyncGenerator[tuple[int, PcmChunk], None]:
    """The PCM of all segments, in order, and of the silence the text asks for; each with its segment's index."""
    for index, segment in enumerate(job.segments):
        if segment.text:
            async with aclosing(_speech(engine, job, speaker, index, shares.of(index))) as chunks:
                async for chunk in chunks:
                    yield index, chunk
        for silence in _silence(segment.pause_ms or 0, engine.info.sample_rate_hz):
            yield index, silence


async def _speech(
    engine: Engine, job: SpeechJob, speaker: Speaker, index: int, resume: bytes
) -> AsyncGenerator[PcmChunk, None]:
    """The PCM of one segment."""
    request = SynthesisRequest(
        segment=job.segments[index],
        voice=speaker,
        language=job.language,
        seed=segment_seed(job.seed, index),
        sampling=job.sampling,
        resume=resume,
    )
    async with aclosing(engine.synthesize(request)) as chunks:
        async for chunk in chunks:
            yield chunk


def _silence(pause_ms: int, rate_hz: int) -> Iterator[_Silence]:
    """Silence of `pause_ms`, in chunks of at most 1 s: it waits in memory for a slow client."""
    num_samples = round(pause_ms / 1000 * rate_hz)
    for start in range(0, num_samples, rate_hz):
        yield _Silence(samples=np.zeros(min(rate_hz, num_samples - start), np.float32), frames=0)


async def _in_time(source: AsyncGenerator[T, None], timeout_s: float) -> AsyncGenerator[T, None]:
    """What `source` yields; EngineStalled when it is silent for `timeout_s`. The caller closes `source`."""
    while True:
        waiting = asyncio.timeout(timeout_s)
        try:
            async with waiting:
                item = await anext(source)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            if not waiting.expired():
                raise
            raise EngineStalled from error
        yield item


async def _first_then_prefetched(source: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    async for chunk in source:
        yield chunk
        break
    async with aclosing(prefetch(source, depth=_PREFETCH_CHUNKS)) as rest:
        async for chunk in rest:
            yield chunk
