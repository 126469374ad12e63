"""Asks a server for speech and notes when each piece of the reply came; does as little else as it can."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from cli.bench.audio_clock import BARE_SAMPLE_BYTES
from cli.bench.stream import Stream
from cli.sockets import is_loopback
from shared.formats import FORMATS, AudioFormat

_CONNECT_TIMEOUT_S = 10.0
_LONGEST_CODE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is asked, of whom. `url`: base URL of the API, with its /v1. `timeout_s`: for a whole reply."""

    url: str
    api_key: str
    model: str
    voice: str
    audio_format: AudioFormat
    speed: float | None
    timeout_s: float

    def body(self, text: str) -> dict[str, Any]:
        """The request: OpenAI's own parameters only, since some servers refuse others."""
        body = {
            "model": self.model,
            "input": text,
            "voice": self.voice,
            "response_format": self.audio_format.value,
        }
        return body if self.speed is None else {**body, "speed": self.speed}


class SpeechClient:
    """One client for a whole run; its connections are kept and used again. An async context manager."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._speech_url = f"{target.url.rstrip('/')}/audio/speech"
        self._http = httpx.AsyncClient(
            headers={b"authorization": b"Bearer " + target.api_key.encode()},
            timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S),
            # The number of streams is bounded by the load; a line inside the client would falsify the times.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            # A proxy has no place between a benchmark and this machine.
            trust_env=not is_loopback(urlsplit(target.url).hostname or ""),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def speak(self, text: str, *, due: float) -> Stream:
        """One request, to its end. Never raises for what the server does: see `Stream.error`."""
        audio_format = self._target.audio_format
        stream = Stream(text=text, audio_format=audio_format, due=due, rate_hz=FORMATS[audio_format].default_rate_hz)
        try:
            async with asyncio.timeout(self._target.timeout_s):
                await self._receive(stream)
        except (TimeoutError, httpx.TimeoutException):
            stream.error = "timeout"
        except httpx.ConnectError:
            stream.error = "connect_failed"
        except httpx.HTTPError:
            stream.error = "broken_off"
        stream.end = time.perf_counter()
        return stream

    async def _receive(self, stream: Stream) -> None:
        body = self._target.body(stream.text)
        async with self._http.stream("POST", self._speech_url, json=body) as response:
            if not response.is_success:
                await response.aread()
                stream.error = _error_code(response)
                return
            rate = response.headers.get("x-sample-rate", "")
            if rate.isdigit() and int(rate) > 0:
                stream.rate_hz = int(rate)
            num_bytes, keep = 0, stream.audio_format not in BARE_SAMPLE_BYTES
            async for data in response.aiter_raw():
                num_bytes += len(data)
                stream.arrivals.append((time.perf_counter(), num_bytes))
                if keep:
                    stream.body += data


def _error_code(response: httpx.Response) -> str:
    """The code of an OpenAI-shaped error, else the status."""
    try:
        code = response.json()["error"]["code"]
    except (ValueError, KeyError, TypeError):
        code = None
    return code[:_LONGEST_CODE] if isinstance(code, str) and code else f"http_{response.status_code}"
