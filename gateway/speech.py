"""POST /v1/audio/speech, and the simple POST /synthesize."""

import asyncio
from dataclasses import dataclass
from typing import Any

from arq.connections import ArqRedis
from litestar import Request, Response, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from litestar.types import ASGIApp
from redis.exceptions import RedisError

from gateway.access import key_of, viewer_of
from gateway.admission import Admission
from gateway.errors import ApiError
from gateway.key_lexicons import KeyLexicons
from gateway.limits import Limits
from gateway.metrics import Metrics
from gateway.prepare import Draft, JobMaker
from gateway.relay import BytesFraming, ClientGone, SpeechResponse, SseFraming, close_quietly, until_hang_up
from gateway.reply import Reply
from gateway.schemas import SpeechRequest, SynthesizeRequest
from gateway.speech_record import CLIENT_GONE, DONE, FAILED, SpeechRecord
from shared.broker.heartbeat import Fleet
from shared.broker.queue import JobQueue
from shared.contracts import Audio, Done
from shared.errors import ReplyGap
from shared.formats import FORMATS, AudioFormat, wav_header
from shared.settings import Settings

_CLIENT_CLOSED_REQUEST = 499
_TOUCHES_PER_TTL = 3


@dataclass(frozen=True, slots=True)
class SpeechService:
    """What the speech routes need; made once by the application."""

    settings: Settings
    redis: ArqRedis
    queue: JobQueue
    fleet: Fleet
    jobs: JobMaker
    lexicons: KeyLexicons
    admission: Admission
    metrics: Metrics
    limits: Limits

    async def draft(self, wanted: SpeechRequest, request: Request[Any, Any, Any]) -> Draft:
        """The job for a text of the client's, with the lexicon of its key. Raises as `JobMaker.make` does."""
        lexicons = await self.lexicons.of(key_of(request))
        return await self.jobs.make(wanted, viewer_of(request), lexicons=lexicons)

    async def begin(
        self, draft: Draft, request: Request[Any, Any, Any], *, characters: int
    ) -> tuple[Reply, list[Audio | Done]]:
        """Check the key's limits, ready the voice, queue the job and wait for its first events.

        The caller closes the reply and ends its record. Raises ApiError when it fails, or what `JobMaker.finish`
        raises; ClientGone when the client hangs up before. Then nothing is left.
        """
        key = key_of(request)
        permit = None
        if key is not None:
            permit = await until_hang_up(self.limits.enter(key, characters), request.receive)
        record = SpeechRecord(self.metrics, draft.job, request.scope["state"])
        reply = Reply(draft.job, self.redis, self.queue, self.fleet, self.settings.limits, record, permit=permit)
        try:
            with self.admission.waiting():
                return reply, await until_hang_up(self._first_events(reply, draft), request.receive)
        except BaseException as error:
            record.end(CLIENT_GONE if isinstance(error, ClientGone) else FAILED)
            # Shielded: a cancelled handler still takes its job out of the queue.
            await asyncio.shield(close_quietly(reply))
            if isinstance(error, RedisError | OSError):
                raise ApiError("broker_unavailable", "The message broker cannot be reached.") from error
            if isinstance(error, ReplyGap):
                raise ApiError("internal_error", "A part of the reply was lost.") from error
            raise

    async def speak_whole(
        self, draft: Draft, request: Request[Any, Any, Any], *, characters: int
    ) -> tuple[Reply, bytes]:
        """Speak to the end; returns the closed reply and all audio. Raises as `begin` does."""
        reply, events = await self.begin(draft, request, characters=characters)
        outcome = FAILED
        try:
            audio = await until_hang_up(_whole_body(reply, events), request.receive)
            reply.delivered = True
            outcome = DONE
        except ClientGone:
            outcome = CLIENT_GONE
            raise
        finally:
            reply.record.end(outcome)
            await asyncio.shield(close_quietly(reply))
        return reply, audio

    async def _first_events(self, reply: Reply, draft: Draft) -> list[Audio | Done]:
        try:
            await reply.enqueue(await self.jobs.finish(draft))
            while not (events := await reply.read()):
                pass
        except ApiError as error:
            if error.code == "profile_unavailable":
                await self.jobs.check(draft)
            raise
        return events


@post("/v1/audio/speech", operation_id="createSpeech", tags=["Speech"], status_code=200)
async def create_speech(
    data: JSONBody[SpeechRequest], request: Request[Any, Any, Any], speech: NamedDependency[SpeechService]
) -> ASGIApp:
    """Speak a text. The audio is sent as it is made, as bytes or as server-sent events."""
    draft = await speech.draft(data, request)
    try:
        reply, first = await speech.begin(draft, request, characters=len(data.input))
    except ClientGone:
        return nobody_listens(request)
    job = draft.job
    spec = FORMATS[job.format]
    limits = speech.settings.limits
    return SpeechResponse(
        reply,
        first,
        SseFraming() if data.stream_format == "sse" else BytesFraming(spec.content_type),
        {
            "x-sample-rate": str(job.sample_rate_hz),
            "x-channels": "1",
            "cache-control": "no-cache",
            # Proxies that buffer a reply (nginx does) would hold the first sound back.
            "x-accel-buffering": "no",
            **reply.limit_headers,
        },
        stall_timeout_s=limits.client_stall_timeout_s,
        touch_every_s=limits.reply_ttl_s / _TOUCHES_PER_TTL,
    )


@post("/synthesize", operation_id="synthesize", tags=["Speech"], status_code=200, media_type="audio/wav")
async def synthesize(
    data: JSONBody[SynthesizeRequest], request: Request[Any, Any, Any], speech: NamedDependency[SpeechService]
) -> Response[bytes] | ASGIApp:
    """Speak a text and answer with the whole wav, exact sizes in its header."""
    settings = speech.settings
    draft = await speech.draft(
        SpeechRequest(
            model=settings.model,
            input=data.text,
            voice=data.voice or settings.default_voice,
            response_format=AudioFormat.PCM,
            speed=data.speed,
            seed=data.seed,
            language=data.language,
            temperature=data.temperature,
            cfg_scale=data.cfg_scale,
        ),
        request,
    )
    try:
        reply, pcm = await speech.speak_whole(draft, request, characters=len(data.text))
    except ClientGone:
        return nobody_listens(request)
    wav = wav_header(draft.job.sample_rate_hz, len(pcm) // 2) + pcm
    return Response(wav, media_type="audio/wav", headers=reply.limit_headers)


async def _whole_body(reply: Reply, events: list[Audio | Done]) -> bytes:
    """All audio of a reply; its size is bounded by the text limit and the slowest speed."""
    parts: list[bytes] = []
    while True:
        for event in events:
            if isinstance(event, Done):
                return b"".join(parts)
            parts.append(event.data)
        events = await reply.read()


def nobody_listens(request: Request[Any, Any, Any]) -> ASGIApp:
    """The answer to a client that has hung up; for the log."""
    request.scope["state"]["outcome"] = CLIENT_GONE
    return Response(None, status_code=_CLIENT_CLOSED_REQUEST).to_asgi_response(None, request)
