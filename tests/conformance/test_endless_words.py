"""A shout of hundreds of letters is short, and nobody waits for it.

O5: https://github.com/ancsemi/Haven/issues/192
"""

import statistics
import threading
import time

import pytest

from tests.conformance.audio import PCM_HZ

SHORT_SENTENCE = "The birch canoe slid on the smooth planks."

SHOUTS = {
    "one long word": "Z" + "O" * 600 + "M",
    "many marks": "Stop" + "!" * 2000,
    "one letter": "a" * 4000,
}


def listen(client, text: str) -> tuple[float, float]:
    """Seconds to the first audio, and seconds of audio."""
    began = time.perf_counter()
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="coral", input=text, response_format="pcm"
    ) as response:
        parts = response.iter_bytes()
        num_bytes = len(next(parts))
        first_s = time.perf_counter() - began
        return first_s, (num_bytes + sum(map(len, parts))) / 2 / PCM_HZ


@pytest.fixture(scope="module")
def usual_s(openai_client):
    """Seconds to the first audio of a short sentence on this machine."""
    return statistics.median(listen(openai_client, SHORT_SENTENCE)[0] for _ in range(7))


# A hold-up would show as seconds: the margin is for the other work of the machine.
SLACK_S = 1.0


@pytest.mark.parametrize("text", SHOUTS.values(), ids=SHOUTS.keys())
def test_a_shout_starts_like_a_short_sentence_and_ends_soon(openai_client, usual_s, text):
    first_s, audio_s = listen(openai_client, text)
    assert 0.2 < audio_s <= 30
    assert first_s < 3 * usual_s + SLACK_S


def test_nobody_waits_for_shouts(openai_client, usual_s):
    def shout():
        while not over.is_set():
            for text in SHOUTS.values():
                listen(openai_client, text)

    over = threading.Event()
    shouting = threading.Thread(target=shout)
    shouting.start()
    try:
        meanwhile_s = statistics.median(listen(openai_client, SHORT_SENTENCE)[0] for _ in range(15))
    finally:
        over.set()
        shouting.join()
    assert meanwhile_s < 3 * usual_s + SLACK_S
