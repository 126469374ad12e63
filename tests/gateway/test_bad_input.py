"""What is refused, and how: status, code and parameter of every bad input."""

import json

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="module")

BASE = {"model": "tts-1", "input": "abc", "voice": "low", "response_format": "pcm"}


def body(**changes) -> bytes:
    return json.dumps({**BASE, **changes}).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in BASE.items() if key != name}).encode()


REFUSED = {
    "no body": (b"", 400, "invalid_json", None),
    "broken json": (b'{"input": ', 400, "invalid_json", None),
    "not an object": (b"[]", 400, "invalid_type", None),
    "null": (b"null", 400, "invalid_type", None),
    "not utf-8": (b'{"input": "\xff"}', 400, "invalid_json", None),
    "lone surrogate": (rb'{"model":"tts-1","voice":"low","input":"a\ud800b"}', 400, "invalid_json", None),
    "5 MB": (body(input="a" * 5_000_000), 413, "request_too_large", None),
    "no input": (without("input"), 400, "missing_required_parameter", "input"),
    "no voice": (without("voice"), 400, "missing_required_parameter", "voice"),
    "no model": (without("model"), 400, "missing_required_parameter", "model"),
    "input null": (body(input=None), 400, "invalid_type", "input"),
    "input number": (body(input=5), 400, "invalid_type", "input"),
    "input list": (body(input=["a"]), 400, "invalid_type", "input"),
    "empty": (body(input=""), 400, "nothing_to_speak", "input"),
    "spaces": (body(input=" \n\t "), 400, "nothing_to_speak", "input"),
    "punctuation": (body(input="... !? --"), 400, "nothing_to_speak", "input"),
    "emoji only": (body(input="😀👩‍👩‍👧‍👦🎉"), 400, "nothing_to_speak", "input"),
    "invisible only": (body(input="\u200b\u00ad\ufeff\u2060"), 400, "nothing_to_speak", "input"),
    "NUL bytes only": (body(input="\0\0\0"), 400, "nothing_to_speak", "input"),
    "markup only": (body(input="<br/> ** __ ```"), 400, "nothing_to_speak", "input"),
    "4097 characters": (body(input="a " * 2048 + "a"), 400, "string_above_max_length", "input"),
    "Chinese": (body(input="你好,今天天气很好。"), 400, "unsupported_language", "input"),
    "right to left": (body(input="مرحبا بالعالم"), 400, "unsupported_language", "input"),
    "another language": (body(language="zh"), 400, "unsupported_language", "language"),
    "language number": (body(language=5), 400, "invalid_type", "language"),
    "unknown voice": (body(voice="nobody"), 400, "voice_not_found", "voice"),
    "unknown voice object": (body(voice={"id": "nobody"}), 400, "voice_not_found", "voice"),
    "voice object without id": (body(voice={"name": "low"}), 400, "missing_required_parameter", "voice.id"),
    "voice number": (body(voice=5), 400, "invalid_type", "voice"),
    "voice like a path": (body(voice="../../etc/passwd"), 400, "voice_not_found", "voice"),
    "unknown model": (body(model="gpt-9"), 404, "model_not_found", "model"),
    "unknown format": (body(response_format="mp4"), 400, "invalid_value", "response_format"),
    "unknown stream format": (body(stream_format="ws"), 400, "invalid_value", "stream_format"),
    "speed 0": (body(speed=0), 400, "invalid_value", "speed"),
    "speed 0.24": (body(speed=0.24), 400, "invalid_value", "speed"),
    "speed 4.01": (body(speed=4.01), 400, "invalid_value", "speed"),
    "speed word": (body(speed="fast"), 400, "invalid_type", "speed"),
    "speed NaN": (b'{"model":"tts-1","voice":"low","input":"a","speed":NaN}', 400, "invalid_json", None),
    "speed infinite": (b'{"model":"tts-1","voice":"low","input":"a","speed":1e999}', 400, "invalid_json", None),
    "opus at 44.1 kHz": (
        body(response_format="opus", sample_rate=44100), 400, "unsupported_sample_rate", "sample_rate",
    ),
    "sample rate 1": (body(sample_rate=1), 400, "unsupported_sample_rate", "sample_rate"),
    "sample rate word": (body(sample_rate="24k"), 400, "invalid_type", "sample_rate"),
    "mu-law at 16 kHz": (
        body(response_format="ulaw", sample_rate=16000), 400, "unsupported_sample_rate", "sample_rate",
    ),
    "A-law at 48 kHz": (
        body(response_format="alaw", sample_rate=48000), 400, "unsupported_sample_rate", "sample_rate",
    ),
    "webm at 22.05 kHz": (
        body(response_format="webm", sample_rate=22050), 400, "unsupported_sample_rate", "sample_rate",
    ),
    "bit rate word": (body(response_format="mp3", bit_rate="64k"), 400, "invalid_type", "bit_rate"),
    "bit rate 0": (body(response_format="mp3", bit_rate=0), 400, "unsupported_bit_rate", "bit_rate"),
    "bit rate in kbit": (body(response_format="mp3", bit_rate=64), 400, "unsupported_bit_rate", "bit_rate"),
    "mp3 between bit rates": (body(response_format="mp3", bit_rate=65000), 400, "unsupported_bit_rate", "bit_rate"),
    "mp3 beyond MPEG-2": (body(response_format="mp3", bit_rate=192000), 400, "unsupported_bit_rate", "bit_rate"),
    "mp3 below MPEG-1": (
        body(response_format="mp3", sample_rate=48000, bit_rate=24000), 400, "unsupported_bit_rate", "bit_rate",
    ),
    "mp3 beyond LAME's MPEG-2.5": (
        body(response_format="mp3", sample_rate=8000, bit_rate=80000), 400, "unsupported_bit_rate", "bit_rate",
    ),
    "opus too low": (body(response_format="opus", bit_rate=5999), 400, "unsupported_bit_rate", "bit_rate"),
    "opus too high": (body(response_format="opus", bit_rate=256001), 400, "unsupported_bit_rate", "bit_rate"),
    "webm beyond measure": (body(response_format="webm", bit_rate=10**30), 400, "unsupported_bit_rate", "bit_rate"),
    "aac beyond its frames": (
        body(response_format="aac", sample_rate=8000, bit_rate=48001), 400, "unsupported_bit_rate", "bit_rate",
    ),
    "pcm with bit rate": (body(response_format="pcm", bit_rate=64000), 400, "unsupported_parameter", "bit_rate"),
    "flac with bit rate": (body(response_format="flac", bit_rate=64000), 400, "unsupported_parameter", "bit_rate"),
    "mu-law with bit rate": (body(response_format="ulaw", bit_rate=64000), 400, "unsupported_parameter", "bit_rate"),
    "seed word": (body(seed="x"), 400, "invalid_type", "seed"),
    "seed beyond 64 bits": (body(seed=2**63), 400, "invalid_value", "seed"),
    "top_k beyond 64 bits": (body(top_k=2**65), 400, "invalid_value", "top_k"),
    "max_frames beyond 64 bits": (body(max_frames=2**65), 400, "invalid_value", "max_frames"),
    "sample rate beyond 64 bits": (body(sample_rate=2**65), 400, "unsupported_sample_rate", "sample_rate"),
    "bit rate beyond 64 bits": (body(bit_rate=2**65), 400, "unsupported_parameter", "bit_rate"),
    "temperature 3": (body(temperature=3), 400, "invalid_value", "temperature"),
    "unknown guidance mode": (body(cfg_uncond_mode="x"), 400, "invalid_value", "cfg_uncond_mode"),
    "pauses only": (body(input="[pause 1s] ... [pause]", pauses=True), 400, "nothing_to_speak", "input"),
    "long pause": (body(input="a [pause 11s] b", pauses=True), 400, "invalid_value", "input"),
    "many pauses": (body(input="a [pause 9s] b" * 9, pauses=True), 400, "invalid_value", "input"),
    "pauses word": (body(pauses="yes"), 400, "invalid_type", "pauses"),
    "lexicon list": (body(lexicon=["a"]), 400, "invalid_type", "lexicon"),
    "lexicon of numbers": (body(lexicon={"a": 1}), 400, "invalid_type", "lexicon"),
    "lexicon with an empty word": (body(lexicon={"": "a"}), 400, "invalid_value", "lexicon"),
    "lexicon with a sign": (body(lexicon={"!": "a"}), 400, "invalid_value", "lexicon"),
    "lexicon with a long word": (body(lexicon={"a" * 101: "a"}), 400, "invalid_value", "lexicon"),
    "lexicon with a long replacement": (body(lexicon={"a": "a" * 201}), 400, "invalid_value", "lexicon"),
    "1001 words in the lexicon": (
        body(lexicon={f"w{index}": "a" for index in range(1001)}), 400, "invalid_value", "lexicon",
    ),
    "lexicon that makes a book": (
        body(input="a " * 2000, lexicon={"a": "word " * 40}), 400, "invalid_value", "lexicon",
    ),
    "lexicon that leaves nothing": (body(input="abc", lexicon={"abc": ""}), 400, "nothing_to_speak", "input"),
    "guidance": (body(cfg_scale=2.0), 400, "unsupported_parameter", "cfg_scale"),
    "reference": (body(reference_audio="UklGRg=="), 400, "unsupported_parameter", "reference_audio"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "status", "code", "param"), REFUSED.values(), ids=REFUSED.keys())
async def test_bad_input_is_refused_with_its_status_code_and_param(
    shared_client, shared_stack, content, status, code, param
):
    asked_before = list(shared_stack.engine.requests)
    response = await shared_client.post(
        "/v1/audio/speech", content=content, headers={"content-type": "application/json"}
    )
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (status, code, param), error
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert response.headers["x-request-id"].startswith("req_")
    assert shared_stack.engine.requests == asked_before
    assert await shared_stack.keys() == set()


ACCEPTED = {
    "NUL inside": body(input="a\0b"),
    "combining characters": body(input="e\u0301" * 20),
    "some right-to-left words": body(input="The word שלום means peace, as everybody knows."),
    "4096 characters": body(input="a " * 2048),
    "special-token literals": body(input="Say <|endoftext|> [INST] hi </s>"),
    "unknown fields": body(stream=True, user="me", lang_code="a", extra={"x": 1}),
    "nulls": body(
        speed=None, response_format=None, stream_format=None, seed=None, language=None, normalize=None,
        instructions=None, sample_rate=None, bit_rate=None, temperature=None,
    ),
    "lowest bit rate": body(response_format="opus", bit_rate=6000),
    "highest bit rate": body(response_format="mp3", sample_rate=44100, bit_rate=320000),
    "the only rate": body(response_format="ulaw", sample_rate=8000),
    "instructions": body(instructions="None"),
    "voice in capitals": body(voice="LOW"),
    "voice object": body(voice={"id": "low"}),
    "language with region": body(language="en-GB"),
    "language auto": body(language="auto"),
    "guidance off": body(cfg_scale=1.0),
    "whole number as speed": body(speed=2),
    "lexicon and pauses null": body(lexicon=None, pauses=None),
    "lexicon of nothing": body(lexicon={}),
    "1000 words in the lexicon": body(lexicon={f"w{index}": "a" for index in range(1000)}),
    "negative seed": body(seed=-1),
}  # fmt: skip


@pytest.mark.parametrize("content", ACCEPTED.values(), ids=ACCEPTED.keys())
async def test_unusual_but_good_input_is_spoken(shared_client, content):
    response = await shared_client.post("/v1/audio/speech", content=content)
    assert response.status_code == 200, response.text
    assert response.content


async def test_4096_digits_are_spoken_and_not_refused(shared_client):
    response = await shared_client.post("/v1/audio/speech", content=body(input="7" * 4096))
    assert response.status_code == 200


async def test_the_text_limit_counts_characters_not_bytes(shared_client):
    assert (await shared_client.post("/v1/audio/speech", content=body(input="é " * 2048))).status_code == 200


async def test_a_chunked_body_over_the_limit_is_413(shared_client):
    async def chunks():
        for _ in range(50):
            yield b"x" * 100_000

    response = await shared_client.post("/v1/audio/speech", content=chunks())
    assert (response.status_code, response.json()["error"]["code"]) == (413, "request_too_large")


async def test_messages_name_what_exists(shared_client):
    async def message(**changes) -> str:
        return (await shared_client.post("/v1/audio/speech", content=body(**changes))).json()["error"]["message"]

    assert "low" in await message(voice="x")
    assert "tts-1" in await message(model="x")
    assert "flac" in await message(response_format="x")
    assert "webm, ulaw, alaw" in await message(response_format="x")
    assert "24000" in await message(response_format="opus", sample_rate=44100)
    assert "160000" in await message(response_format="mp3", bit_rate=1)
    assert "40000, 48000, 56000, 64000." in await message(response_format="mp3", sample_rate=8000, bit_rate=1)
    assert "16000 to 144000" in await message(response_format="aac", bit_rate=1)
    assert "mp3, opus, webm, aac" in await message(response_format="wav", bit_rate=64000)


OTHER = {
    "unknown path": ("GET", "/v1/nothing", 404, "not_found"),
    "wrong method": ("GET", "/v1/audio/speech", 405, "method_not_allowed"),
    "unknown model": ("GET", "/v1/models/nothing", 404, "model_not_found"),
    "encoded path": ("GET", "/v1/models/..%2f..%2fetc", 404, "not_found"),
    "simple route without text": ("POST", "/synthesize", 400, "invalid_json"),
}


@pytest.mark.parametrize(("method", "path", "status", "code"), OTHER.values(), ids=OTHER.keys())
async def test_every_refusal_has_the_same_shape(shared_client, method, path, status, code):
    response = await shared_client.request(method, path)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code)
    assert set(error) == {"message", "type", "param", "code"}
    assert response.headers["x-request-id"]
