"""Players ask for two bytes first, TVs for the headers; both get what they ask for."""

import time

import pytest

from gateway.errors import ApiError
from gateway.ranges import byte_range
from tests.support.voices import error_of


@pytest.fixture(params=["clip", "preview"])
async def url(request, api, ann):
    voice = await api.add(ann)
    await api.settled(voice["id"])
    return f"/v1/voices/{voice['id']}/{request.param}"


async def test_parts_of_a_clip_and_a_preview(api, url):
    client = api.client
    whole = await client.get(url)
    assert whole.status_code == 200, whole.text
    assert whole.headers["content-type"] == ("audio/flac" if url.endswith("clip") else "audio/mpeg")
    assert whole.headers["accept-ranges"] == "bytes"
    size = len(whole.content)
    two = await client.get(url, headers={"range": "bytes=0-1"})
    assert (two.status_code, two.content) == (206, whole.content[:2])
    assert two.headers["content-range"] == f"bytes 0-1/{size}"
    rest = await client.get(url, headers={"range": "bytes=0-"})
    assert (rest.status_code, rest.content) == (206, whole.content)
    last = await client.get(url, headers={"range": "bytes=-5"})
    assert (last.status_code, last.content) == (206, whole.content[-5:])
    beyond = await client.get(url, headers={"range": "bytes=999999999-"})
    assert error_of(beyond) == (416, "range_not_satisfiable", None)
    assert beyond.headers["content-range"] == f"bytes */{size}"
    began = time.perf_counter()
    many = await client.get(url, headers={"range": "bytes=" + ",".join(f"{i}-{i}" for i in range(1500))})
    assert time.perf_counter() - began < 0.05
    assert (many.status_code, many.content) == (200, whole.content)
    changed = await client.get(url, headers={"range": "bytes=0-1", "if-range": '"another"'})
    assert (changed.status_code, changed.content) == (200, whole.content)
    same = await client.get(url, headers={"range": "bytes=0-1", "if-range": whole.headers["etag"]})
    assert same.status_code == 206


async def test_head_has_the_headers_of_get_and_no_body(api, url):
    ours = {"x-request-id", "openai-processing-ms", "date"}
    for headers in ({}, {"range": "bytes=0-1"}):
        got, head = await api.client.get(url, headers=headers), await api.client.head(url, headers=headers)
        assert head.status_code == got.status_code
        assert head.content == b""
        assert {name: value for name, value in head.headers.items() if name not in ours} == {
            name: value for name, value in got.headers.items() if name not in ours
        }


async def test_speech_ignores_ranges_and_does_not_promise_them(api):
    whole = await api.say("low")
    part = await api.client.post(
        "/v1/audio/speech",
        json={"model": "tts-1", "input": "Hello there.", "voice": "low", "response_format": "pcm", "seed": 1},
        headers={"range": "bytes=0-1"},
    )
    assert (part.status_code, part.content) == (200, whole.content)
    assert "accept-ranges" not in part.headers


async def test_built_in_voices_have_a_preview_and_no_clip(api):
    assert (await api.client.get("/v1/voices/low/preview")).status_code == 200
    assert error_of(await api.client.get("/v1/voices/low/clip")) == (404, "not_found", None)
    assert error_of(await api.client.get("/v1/voices/nobody/preview")) == (404, "not_found", None)


async def test_a_preview_is_made_once(api, stack, ann):
    voice = await api.add(ann)
    url = f"/v1/voices/{voice['id']}/preview"
    first = await api.client.get(url)
    num_requests = len(stack.engine.requests)
    assert (await api.client.get(url)).content == first.content
    assert len(stack.engine.requests) == num_requests


@pytest.mark.parametrize(
    ("wanted", "part"),
    [
        (None, None),
        ("bytes=0-0", (0, 1)),
        ("bytes=3-", (3, 10)),
        ("bytes=3-99", (3, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-99", (0, 10)),
        ("bytes=5-4", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("bytes=0-1,3-4", None),
        ("items=0-1", None),
        ("bytes=" + "9" * 10_000 + "-", None),
        ("bytes=\u0661-\u0662", None),
    ],
)
def test_which_bytes_a_range_means(wanted, part):
    found = byte_range(wanted, 10)
    assert (None if found is None else (found.start, found.stop)) == part


@pytest.mark.parametrize("wanted", ["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=999999999999-"])
def test_a_range_beyond_the_end_is_refused(wanted):
    with pytest.raises(ApiError) as refused:
        byte_range(wanted, 10)
    assert refused.value.kind.status == 416
