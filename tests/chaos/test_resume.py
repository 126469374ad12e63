"""A worker that goes in the middle of many replies: another one goes on, and no client hears it.

Real processes over HTTP, the embedded engine. It makes the same samples again from the seed, and the encoders
make the same bytes of them: a reply that changed its worker is, byte for byte, one that did not.
"""

import asyncio
import base64
import signal
from itertools import count

import pytest

from tests.support.clips import speech, wav
from tests.support.fleet import Listener, running_fleet
from tests.support.gepard import wait_until

_TEXT = (
    "Good morning to everybody on board. The train to the coast leaves in ten minutes from platform four. "
    "Please keep your bags with you, and mind the gap! Nobody expected the harbour to freeze over in the first "
    "week of November. She asked twice, and both times he pretended not to hear the question. Turn left at the "
    "old mill, then follow the river until you see the bridge; behind it, the road becomes a path. "
)
_LONG = _TEXT * 2
_PAUSES = _LONG.replace("! ", "! [pause 700ms] ").replace("; ", "; [pause] ").replace("path. ", "path. [pause 1.5s] ")

CASES = {
    "mp3": {"response_format": "mp3"},
    "mp3 as events, slow": {"response_format": "mp3", "stream_format": "sse", "speed": 0.8},
    "opus": {"response_format": "opus"},
    "opus at 16 kHz, fast": {"response_format": "opus", "sample_rate": 16000, "speed": 1.25},
    "aac": {"response_format": "aac"},
    "aac at 48 kHz as events": {"response_format": "aac", "sample_rate": 48000, "stream_format": "sse"},
    "flac at 16 kHz": {"response_format": "flac", "sample_rate": 16000},
    "wav at 8 kHz with pauses": {"response_format": "wav", "sample_rate": 8000, "input": _PAUSES, "pauses": True},
    "pcm": {"response_format": "pcm"},
    "pcm at 48 kHz, fast, with pauses, as events": {
        "response_format": "pcm",
        "sample_rate": 48000,
        "speed": 1.7,
        "input": _PAUSES,
        "pauses": True,
        "stream_format": "sse",
    },
    "webm": {"response_format": "webm"},
    "ulaw, slow": {"response_format": "ulaw", "speed": 0.6},
    "pcm in the voice of a clip": {
        "response_format": "pcm",
        "reference_audio": base64.b64encode(wav(speech(3.0, 160.0))).decode(),
    },
}
"""Every format; as bytes and as events; speeds, sample rates, pauses, a voice made of a clip."""


def requests():
    """The cases, each with its own text and seed."""
    numbers = count(1)
    return {
        name: {"model": "tts-1", "voice": "heart", "input": f"Number {number}. {_LONG}", "seed": number, **changes}
        for (name, changes), number in zip(CASES.items(), numbers, strict=False)
    }


@pytest.fixture(scope="module")
def fleet(valkey_url, tmp_path_factory):
    with running_fleet(tmp_path_factory.mktemp("chaos"), valkey_url, GEPARD_WORKER_DRAIN_S="0") as fleet:
        fleet.url = fleet.start_gateway()
        fleet.await_alive(fleet.start_worker())
        yield fleet


@pytest.fixture(scope="module")
def expected(fleet):
    """What the cases sound like when nothing happens."""
    listeners = {name: Listener(fleet.url, request) for name, request in requests().items()}

    async def listen():
        await asyncio.gather(*(listener.listen() for listener in listeners.values()))

    asyncio.run(listen())
    assert {name: listener.error for name, listener in listeners.items() if listener.error} == {}
    return listeners


def end_by(how):
    def end(fleet, worker):
        if how == signal.SIGSTOP:
            fleet.freeze(worker)
        else:
            worker.process.send_signal(how)

    return end


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP], ids=lambda how: how.name)
async def test_no_client_hears_that_its_worker_went(fleet, expected, how):
    first = fleet.workers[-1]
    second = await asyncio.to_thread(fleet.start_worker)
    await asyncio.to_thread(fleet.await_alive, second)
    # Asleep, so that all replies begin on the first one.
    await asyncio.to_thread(fleet.freeze, second)
    listeners = {name: Listener(fleet.url, request) for name, request in requests().items()}
    tasks = [asyncio.create_task(listener.listen()) for listener in listeners.values()]
    await asyncio.gather(*(listener.heard.wait() for listener in listeners.values()))
    heard = {name: len(listener.audio) for name, listener in listeners.items()}
    fleet.thaw(second)
    await asyncio.to_thread(end_by(how), fleet, first)
    await asyncio.gather(*tasks)
    print({name: (heard[name], len(expected[name].audio)) for name in heard})
    assert {name: listener.error for name, listener in listeners.items() if listener.error} == {}
    assert [name for name in listeners if listeners[name].audio != expected[name].audio] == []
    assert {name: listener.usage for name, listener in listeners.items()} == {
        name: listener.usage for name, listener in expected.items()
    }
    assert all(heard[name] < len(expected[name].audio) for name in heard)
