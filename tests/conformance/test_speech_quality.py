"""What is heard over the API: the right words, at the asked speed, for each of many clients at once.

That presets are different speakers is tested at the engine: tests/workers/engines/test_hibari_voices.py.
"""

import asyncio
import itertools

import numpy as np
import pytest
from openai import AsyncOpenAI

from tests.conformance.audio import PCM_HZ, decode_pcm
from tests.speech import edit_distance, needs_speech_recognition, normalized_words, transcribe_each, word_error_rate
from tests.support.signals import median_pitch_hz
from voices.aliases import OPENAI_NAMES

# From the Harvard sentences (IEEE 1969), one after another as prose: 100 words.
LONG_TEXT = (
    "The small pup gnawed a hole in the sock. The fish twisted and turned on the bent hook. Press the pants and sew "
    "a button on the vest. The swan dive was far short of perfect. The beauty of the view stunned the young boy. "
    "Two blue fish swam in the tank. Her purse was full of useless trash. The colt reared and threw the tall rider. "
    "It snowed, rained, and hailed the same morning. Read verse out loud for pleasure. Hoist the load to your left "
    "shoulder. Take the winding path to reach the lake. Note closely the size of the gas tank."
)

# More of them, short ones, no two alike.
SHORT_TEXTS = (
    "Wipe the grease off his dirty face.",
    "Mend the coat before you go out.",
    "The wrist was badly strained and hung limp.",
    "The stray cat gave birth to kittens.",
    "The young girl gave no clear response.",
    "The meal was cooked before the bell rang.",
    "What joy there is in living.",
    "A king ruled the state in the early days.",
    "The ship was torn apart on the sharp reef.",
    "Sickness kept him home the third week.",
    "The wide road shimmered in the hot sun.",
    "The lazy cow lay in the cool grass.",
    "Lift the square stone over the fence.",
    "The rope will bind the seven books at once.",
    "Hop over the fence and plunge in.",
    "The friendly gang left the drug store.",
    "Mesh wire keeps chicks inside.",
    "The frosty air passed through the coat.",
    "The crooked maze failed to fool the mouse.",
    "Adding fast leads to wrong sums.",
    "The show was a flop from the very start.",
    "A saw is a tool used for making boards.",
    "The wagon moved on well oiled wheels.",
    "March the soldiers past the next hill.",
    "A cup of sugar makes sweet fudge.",
    "Place a rosebush near the porch steps.",
    "Both lost their lives in the raging storm.",
    "We talked of the side show in the circus.",
    "Use a pencil to write the first draft.",
    "He ran half way to the hardware store.",
    "The clock struck to mark the third period.",
    "A small creek cut across the field.",
)

# One request for each of them.
CROWD = [
    {"model": "tts-1", "voice": voice, "input": text, "response_format": "pcm", "extra_body": {"seed": seed}}
    for seed, (text, voice) in enumerate(zip(SHORT_TEXTS, itertools.cycle(OPENAI_NAMES), strict=False))
]

VOICED_TEXT = "We were away a year ago, and you may know all our yellow lions."


def speak(client, text, **options):
    """Samples of a text."""
    reply = client.audio.speech.create(
        model="tts-1", voice="coral", input=text, response_format="pcm", extra_body={"seed": 3}, **options
    )
    return decode_pcm(reply.content)


@needs_speech_recognition
@pytest.mark.parametrize("speed", [1.0, 0.75, 1.5])
def test_a_long_text_is_understood(openai_client, speed):
    samples = speak(openai_client, LONG_TEXT, speed=speed)
    assert word_error_rate(LONG_TEXT, samples, PCM_HZ) <= 0.08


@pytest.fixture(scope="module")
def normal_speed(openai_client):
    return speak(openai_client, VOICED_TEXT)


@pytest.mark.parametrize("speed", [0.25, 0.5, 2.0, 4.0])
def test_speed_changes_the_duration_and_not_the_pitch(openai_client, normal_speed, speed):
    samples = speak(openai_client, VOICED_TEXT, speed=speed)
    assert len(samples) == pytest.approx(len(normal_speed) / speed, rel=0.03)
    assert median_pitch_hz(samples, PCM_HZ) == pytest.approx(median_pitch_hz(normal_speed, PCM_HZ), rel=0.02)


@pytest.fixture(scope="module")
def replies_at_once(base_url):
    """Samples for each of SHORT_TEXTS, asked for together, in turn with the voices of OpenAI."""

    async def ask_all():
        async with AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(client.audio.speech.create(**request) for request in CROWD))

    return [decode_pcm(reply.content) for reply in asyncio.run(ask_all())]


@needs_speech_recognition
def test_32_clients_at_once_each_get_their_own_words(replies_at_once):
    texts = [normalized_words(text) for text in SHORT_TEXTS]
    num_errors = 0
    for text, transcript in zip(texts, transcribe_each(replies_at_once, PCM_HZ), strict=True):
        heard = normalized_words(transcript)
        num_errors += edit_distance(text, heard)
        assert min(texts, key=lambda other: edit_distance(other, heard) / len(other)) == text, heard
    assert num_errors / sum(map(len, texts)) <= 0.1


def test_32_clients_at_once_each_get_what_they_would_get_alone(openai_client, replies_at_once):
    """Words, voice and length: to the sample."""
    for request, samples in zip(CROWD, replies_at_once, strict=True):
        np.testing.assert_array_equal(decode_pcm(openai_client.audio.speech.create(**request).content), samples)
