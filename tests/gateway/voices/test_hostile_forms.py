"""Uploads that no client should send: each refused with its status, code and parameter, and no trace of it left."""

import io
import zipfile
from collections.abc import AsyncIterator

import pytest

from tests.support.clips import png, speech, wav
from tests.support.voices import Api, all_files, assert_nothing_left, error_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLIP = wav(speech(2.0))
LIMIT = 10 * 1024 * 1024
BOUNDARY = "x-boundary-x"
MULTIPART = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}

NOT_AUDIO = (400, "clip_not_audio", "audio_sample")


def part(name: str, data: bytes, *, file: bool = False, head: str = "") -> bytes:
    filename = '; filename="clip.wav"' if file else ""
    text = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{filename}\r\n{head}\r\n'
    return text.encode() + data + b"\r\n"


def form(*parts: bytes, end: bool = True) -> bytes:
    return b"".join(parts) + (f"--{BOUNDARY}--\r\n".encode() if end else b"")


NAME, CONSENT, SAMPLE = part("name", b"ann"), part("consent", b"yes"), part("audio_sample", CLIP, file=True)


def with_sample(data: bytes) -> bytes:
    return form(NAME, CONSENT, part("audio_sample", data, file=True))


def with_text(name: str, value: bytes) -> bytes:
    parts = {"name": NAME, "consent": CONSENT, name: part(name, value)}
    return form(*parts.values(), SAMPLE)


def a_zip() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("clip.wav", CLIP)
    return sink.getvalue()


def missing(name: str) -> tuple[int, str, str]:
    return 400, "missing_required_parameter", name


REFUSED = {
    "0 bytes": (with_sample(b""), NOT_AUDIO),
    "a zip": (with_sample(a_zip()), NOT_AUDIO),
    "a picture": (with_sample(png(16, 16)), NOT_AUDIO),
    "text": (with_sample(b"#EXTM3U\nfile:///etc/passwd\n"), NOT_AUDIO),
    "silence": (with_sample(wav(speech(2.0) * 0)), (400, "clip_silent", "audio_sample")),
    "a tenth of a second": (with_sample(wav(speech(0.1))), (400, "clip_too_short", "audio_sample")),
    "a wav cut behind its head": (with_sample(CLIP[:44]), NOT_AUDIO),
    "no name": (form(CONSENT, SAMPLE), missing("name")),
    "no consent": (form(NAME, SAMPLE), missing("consent")),
    "no file": (form(NAME, CONSENT), missing("audio_sample")),
    "nothing": (form(), missing("name")),
    "both files": (form(NAME, CONSENT, SAMPLE, part("file", CLIP, file=True)), (400, "invalid_value", "file")),
    "two names": (form(NAME, NAME, CONSENT, SAMPLE), (400, "invalid_value", "name")),
    "two consents": (form(NAME, CONSENT, CONSENT, SAMPLE), (400, "invalid_value", "consent")),
    "two samples": (form(NAME, CONSENT, SAMPLE, SAMPLE), (400, "invalid_value", "audio_sample")),
    "empty name": (with_text("name", b""), missing("name")),
    "name of spaces": (with_text("name", b" \t "), missing("name")),
    "10 000 characters": (with_text("name", b"a" * 10_000), (400, "string_above_max_length", "name")),
    "1 MB of name": (with_text("name", b"a" * 1_000_000), (400, "string_above_max_length", "name")),
    "NUL in the name": (with_text("name", b"a\0b"), (400, "invalid_value", "name")),
    "line end in the name": (with_text("name", b"a\nb"), (400, "invalid_value", "name")),
    "name not UTF-8": (with_text("name", b"\xff\xfe"), (400, "invalid_value", "name")),
    "name like an id": (with_text("name", b"voice_" + 24 * b"0"), (400, "invalid_value", "name")),
    "name of a built-in voice": (with_text("name", b"ALLOY"), (400, "voice_exists", "name")),
    "empty consent": (with_text("consent", b""), missing("consent")),
    "501 characters of consent": (with_text("consent", b"a" * 501), (400, "string_above_max_length", "consent")),
    "NUL in the consent": (with_text("consent", b"../\0"), (400, "invalid_value", "consent")),
    "long description": (with_text("description", b"a" * 1001), (400, "string_above_max_length", "description")),
    "language like a path": (with_text("language", b"../../en"), (400, "invalid_value", "language")),
    "voice of a prompt": (with_text("type", b"prompt"), (400, "invalid_value", "type")),
    "cut off": (form(NAME, CONSENT, SAMPLE, end=False), (400, "bad_request", None)),
    "rubbish": (b"\0" * 1000, (400, "bad_request", None)),
    "empty body": (b"", (400, "bad_request", None)),
    "100 parts": (form(*(part(f"p{i}", b"") for i in range(100))), (400, "bad_request", None)),
    "a header of 1 MB": (form(part("name", b"a", head=f"X-A: {'a' * 1_000_000}\r\n")), (400, "bad_request", None)),
    "1 byte too large": (with_sample(b"a" * (LIMIT + 1)), (413, "clip_too_large", "audio_sample")),
    "1 MB too large": (with_sample(b"a" * (LIMIT + 1_000_000)), (413, None, None)),
    "much too large elsewhere": (form(NAME, part("x", b"a" * (LIMIT + 1_000_000))), (413, "request_too_large", None)),
}


async def chunks(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 100_000):
        yield data[start : start + 100_000]


@pytest.mark.parametrize("framing", ["content-length", "chunked"])
@pytest.mark.parametrize(("body", "expected"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_hostile_upload_is_refused_and_leaves_no_trace(shared_stack, body, expected, framing):
    content = body if framing == "content-length" else chunks(body)
    async with shared_stack.client() as client:
        response = await client.post("/v1/voices", content=content, headers=MULTIPART)
    status, code, param = error_of(response)
    if expected[1] is None:
        # By its Content-Length, or by its file, whichever is looked at first.
        assert (status, code in ("request_too_large", "clip_too_large")) == (expected[0], True)
    else:
        assert (status, code, param) == expected, response.json()
    await assert_nothing_left(shared_stack)
    assert all_files(shared_stack.settings.data_path()) == set()


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/json"},
        {"content-type": "multipart/form-data"},
        {"content-type": "multipart/form-data; boundary="},
        {"content-type": f"multipart/form-data; boundary={'b' * 1000}"},
        {"content-type": "application/x-www-form-urlencoded"},
        {},
    ],
)
async def test_what_is_no_form_is_refused(shared_stack, headers):
    async with shared_stack.client() as client:
        response = await client.post("/v1/voices", content=form(NAME, CONSENT, SAMPLE), headers=headers)
    assert error_of(response) == (400, "bad_request", None)
    await assert_nothing_left(shared_stack)


STRANGE = {
    "name like a path": with_text("name", b"../../etc/passwd"),
    "absolute name": with_text("name", b"/etc/passwd"),
    "name of dots": with_text("name", b".."),
    "emoji": with_text("name", "🦜🎙️".encode()),
    "right to left": with_text("name", b"\xe2\x80\xae\xd8\xb4\xd8\xa7\xd8\xaf\xdb\x8c"),
    "quotes and markup": with_text("name", b"<b>'\";DROP TABLE voices;--"),
    "consent like a path": with_text("consent", b"../../../../root/.ssh/id_rsa"),
    "unknown parts": form(NAME, CONSENT, SAMPLE, part("x", b"1"), part("x", b"2"), part("y", b"a" * 100_000)),
    "wrong content type": form(
        NAME, CONSENT, part("audio_sample", CLIP, file=True, head="Content-Type: text/html\r\n")
    ),
    "file name like a path": form(NAME, CONSENT, SAMPLE.replace(b"clip.wav", b"../../../../tmp/evil.wav")),
    "a file without a name": form(NAME, CONSENT, part("audio_sample", CLIP)),
}


@pytest.mark.parametrize("body", STRANGE.values(), ids=STRANGE.keys())
async def test_a_strange_but_good_upload_is_taken_and_stays_in_its_place(shared_stack, body):
    async with shared_stack.client() as client:
        api = Api(client)
        made = await client.post("/v1/voices", content=body, headers=MULTIPART)
        assert made.status_code == 200, made.text
        voice = made.json()
        files = all_files(shared_stack.settings.data_path())
        assert [path.parent.parent.name for path in files] == ["clips"]
        assert (await api.say(voice["name"])).status_code == 200
        assert (await api.delete(voice["id"])).status_code == 200
    await assert_nothing_left(shared_stack)
