"""A worker that goes in the middle of many replies: another one goes on, and no client hears it.

Real processes over HTTP. The embedded engine makes the same samples again from the seed, Gepard from the codes that
came with the audio, and the encoders make the same packets of them: a reply that changed its worker is one that did
not.
"""

import asyncio
import base64
import io
import signal
from itertools import count

import av
import numpy as np
import pytest

from tests.support.clips import speech, wav
from tests.support.fleet import Listener, running_fleet
from tests.support.tiny_gepard import CHECKPOINT, CODEC, write_starters

_TEXT = (
    "Good morning to everybody on board. The train to the coast leaves in ten minutes from platform four. "
    "Please keep your bags with you, and mind the gap! Nobody expected the harbour to freeze over in the first "
    "week of November. She asked twice, and both times he pretended not to hear the question. Turn left at the "
    "old mill, then follow the river until you see the bridge; behind it, the road becomes a path. "
)
_PAUSES = _TEXT.replace("! ", "! [pause 700ms] ").replace("; ", "; [pause] ").replace("path. ", "path. [pause 1.5s] ")

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

_SAMPLES = {name for name, case in CASES.items() if case["response_format"] in ("pcm", "wav", "flac")}

_KNOBS = {"temperature": 1.0, "stop_threshold": 1.0, "max_frames": 60}
"""For a model that does not know when to stop."""


_PATIENT = {
    "GEPARD_WORKER_DRAIN_S": "0",
    "GEPARD_LIMITS_RESUME_WAIT_S": "60",
    "GEPARD_LIMITS_MAX_ATTEMPTS": "10",
}
"""On a machine with much else to do, workers start slowly, and one may be taken for lost that only waits for a core."""


def requests(more):
    """The cases, each with its own text and seed."""
    numbers = count(1)
    return {
        name: {"model": "tts-1", "input": f"Number {number}. {_TEXT}", "seed": number, **more, **changes}
        for (name, changes), number in zip(CASES.items(), numbers, strict=False)
    }


async def listen_to(url, asked):
    """All of them at once, to their ends."""
    listeners = {name: Listener(url, request) for name, request in asked.items()}
    await asyncio.gather(*(listener.listen() for listener in listeners.values()))
    return listeners


def faults(listeners):
    return {name: listener.error for name, listener in listeners.items() if listener.error}


@pytest.fixture(scope="module")
def hibari(valkey_url, tmp_path_factory):
    """A gateway and a worker with the embedded engine; `asked`, and `expected`: what comes when nothing happens."""
    with running_fleet(tmp_path_factory.mktemp("chaos"), valkey_url, **_PATIENT) as fleet:
        fleet.start_gateway()
        fleet.await_alive(fleet.start_worker())
        fleet.asked = requests({"voice": "heart"})
        fleet.expected = asyncio.run(listen_to(fleet.urls[0], fleet.asked))
        assert faults(fleet.expected) == {}
        yield fleet


@pytest.fixture(scope="module")
def gepard(valkey_url, tmp_path_factory):
    """The same with the tiny Gepard."""
    pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")
    folder = tmp_path_factory.mktemp("chaos")
    settings = {
        **_PATIENT,
        "GEPARD_MODEL": "gepard",
        "GEPARD_WORKER_ENGINE": "gepard",
        "GEPARD_WORKER_CAPACITY": "16",
        "GEPARD_WORKER_THREADS": "1",
        "GEPARD_DATA_DIR": str(folder / "data"),
        "GEPARD_GEPARD_CHECKPOINT": str(CHECKPOINT),
        "GEPARD_GEPARD_CODEC": str(CODEC),
        "GEPARD_GEPARD_STARTER_CLIPS": str(write_starters(folder / "clips")),
        "GEPARD_GEPARD_DEVICE": "cpu",
    }
    with running_fleet(folder, valkey_url, **settings) as fleet:
        fleet.start_gateway()
        fleet.await_alive(fleet.start_worker())
        fleet.asked = requests({"voice": "rowan", **_KNOBS})
        fleet.expected = asyncio.run(listen_to(fleet.urls[0], fleet.asked))
        assert faults(fleet.expected) == {}
        yield fleet


async def interrupted(fleet, how):
    """Begin all on the last worker, and end that one with another beside it; what the clients hear, and heard then."""
    first = fleet.workers[-1]
    second = await asyncio.to_thread(fleet.start_worker)
    await asyncio.to_thread(fleet.await_alive, second)
    # Asleep, so that all replies begin on the first one.
    await asyncio.to_thread(fleet.freeze, second)
    listeners = {name: Listener(fleet.urls[0], request) for name, request in fleet.asked.items()}
    tasks = [asyncio.create_task(listener.listen()) for listener in listeners.values()]
    await asyncio.gather(*(listener.heard.wait() for listener in listeners.values()))
    fleet.thaw(second)
    heard = {name: len(listener.audio) for name, listener in listeners.items()}
    if how == signal.SIGTERM:
        first.process.send_signal(how)
    else:
        fleet.signal(first, how)
    await asyncio.gather(*tasks)
    return listeners, heard


def usage(listeners):
    return {name: listener.usage for name, listener in listeners.items()}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP], ids=lambda how: how.name)
async def test_no_client_hears_that_its_worker_went(hibari, how):
    before = hibari.metric("gepard_resumed_replies_total")
    listeners, heard = await interrupted(hibari, how)
    assert faults(listeners) == {}
    assert [name for name in CASES if listeners[name].audio != hibari.expected[name].audio] == []
    assert usage(listeners) == usage(hibari.expected)
    assert all(heard[name] < len(listeners[name].audio) for name in CASES)
    assert hibari.metric("gepard_resumed_replies_total") - before >= len(CASES)
    assert hibari.metric("gepard_active_streams") == hibari.metric("gepard_waiting_requests") == 0
    assert hibari.keys() == set()


async def test_no_client_hears_that_its_worker_went_whose_model_goes_on_from_codes(gepard):
    """Samples come again to 1e-5: packets of a lossy format may differ in their bytes, not in their number."""
    listeners, heard = await interrupted(gepard, signal.SIGKILL)
    assert faults(listeners) == {}
    for name, listener in listeners.items():
        ours, whole = samples(listener), samples(gepard.expected[name])
        assert len(ours) == len(whole), name
        if name in _SAMPLES:
            assert np.abs(ours - whole).max() <= 1e-3, name
    assert usage(listeners) == usage(gepard.expected)
    assert all(heard[name] < len(listeners[name].audio) for name in CASES)


def samples(listener):
    """What a reply sounds like, -1 to 1."""
    kind = listener.request["response_format"]
    if kind == "pcm":
        return np.frombuffer(bytes(listener.audio), "<i2") / 32768
    options = {"ulaw": "mulaw"}
    with av.open(io.BytesIO(bytes(listener.audio)), format=options.get(kind)) as container:
        resampler = av.AudioResampler(format="flt", layout="mono")
        frames = [out for frame in container.decode(audio=0) for out in resampler.resample(frame)]
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])


async def test_a_reply_goes_on_from_worker_to_worker(hibari):
    """Two are lost in one reply; the third ends it, and it is counted once."""
    long = {**hibari.asked["pcm"], "input": _TEXT * 8}
    whole = (await listen_to(hibari.urls[0], {"long": long}))["long"]
    resumed, done = [hibari.metric(f"gepard_{name}_total") for name in ("resumed_replies", "speech_requests")]
    listener = Listener(hibari.urls[0], long)
    task = asyncio.create_task(listener.listen())
    for _ in range(2):
        await asyncio.wait_for(listener.heard.wait(), 30)
        await asyncio.to_thread(hibari.signal, hibari.workers[-1], signal.SIGKILL)
        await asyncio.to_thread(hibari.await_alive, hibari.start_worker())
        # What the lost one had on the way has come long since.
        listener.heard.clear()
    await task
    assert (listener.error, listener.audio) == ("", whole.audio)
    assert hibari.metric("gepard_resumed_replies_total") - resumed >= 2
    assert hibari.metric("gepard_speech_requests_total") - done == 1
