"""O12: a client that sends five sentences at once, with a key that may have fewer streams.

https://github.com/lfnovo/open-notebook/issues/125
"""

import asyncio

import pytest
from msgspec.structs import replace
from openai import AsyncOpenAI, OpenAI

from tests.support.databases import make_key
from tests.support.engines import ToneEngine
from tests.support.stack import running_stack

SENTENCES = [f"{word} sentence of two seconds, and forty." for word in ("One", "Two", "Three", "Four", "Five")]
SOUND_S = 0.05
TWICE_AS_FAST_AS_SOUND_S = SOUND_S / 2


@pytest.mark.parametrize("streams", [2, 1])
async def test_five_threads_of_the_openai_client_all_succeed_each_with_one_job(settings, streams):
    engine = ToneEngine(step=lambda request, index: asyncio.sleep(TWICE_AS_FAST_AS_SOUND_S))
    _, key = await make_key(settings, concurrent_streams=streams)
    async with running_stack(settings, engine) as stack:
        with OpenAI(base_url=f"{stack.url}/v1", api_key=key) as client:

            def create(text: str) -> bytes:
                return client.audio.speech.create(model="tts-1", voice="low", input=text, response_format="pcm").content

            replies = await asyncio.gather(*(asyncio.to_thread(create, text) for text in SENTENCES))
    # 24 kHz, two bytes a sample.
    assert [len(reply) for reply in replies] == [round(len(text) * SOUND_S * 48000) for text in SENTENCES]
    assert sorted(request.segment.text for request in engine.requests) == sorted(SENTENCES)


async def test_with_longer_replies_than_the_wait_its_retries_help_the_client_through(settings):
    """A reply takes 1.5 s here and a request waits 1 s: the 429 in between is survived."""
    settings = replace(settings, limits=replace(settings.limits, stream_wait_s=1))
    engine = ToneEngine(step=lambda request, index: asyncio.sleep(0.1))
    _, key = await make_key(settings, concurrent_streams=1)
    async with running_stack(settings, engine) as stack, AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=key) as client:
        replies = await asyncio.gather(
            *(
                client.audio.speech.create(model="tts-1", voice="low", input=f"{name} fifteen chars")
                for name in ("a", "b", "c")
            )
        )
    assert all(reply.content for reply in replies)
    assert len(engine.requests) == 3
