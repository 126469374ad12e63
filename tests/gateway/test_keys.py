"""Who is let in: keys, what needs none, and how soon a change is seen."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from gateway import keys
from gateway.keys import Keys
from gateway.usage import UsageLog
from shared.database import Database, database_url
from shared.errors import DatabaseError
from shared.settings import AuthSettings, DatabaseSettings, ServerSettings
from tests.support.databases import make_key
from tests.support.engines import ToneEngine
from tests.support.stack import running_stack
from tests.support.waiting import eventually
from voices.api_keys import KeyLimits, KeyRegistry, hash_key

REQUEST = {"model": "tts-1", "input": "Hello there.", "voice": "low", "response_format": "pcm"}
LISTS = ("/v1/models", "/v1/audio/models", "/v1/voices", "/v1/audio/voices")


@pytest.fixture
async def key(settings):
    return (await make_key(settings))[1]


@pytest.fixture
async def registry(settings):
    async with Database(database_url(settings)) as database:
        yield KeyRegistry(database)


@pytest.fixture
async def keyed_stack(settings, key, engine):
    async with running_stack(settings, engine) as stack:
        yield stack


async def speak(client, **headers):
    return await client.post("/v1/audio/speech", json=REQUEST, headers=headers)


async def test_a_valid_key_is_served(keyed_stack, key):
    async with keyed_stack.client(key) as client:
        assert (await speak(client)).status_code == 200
        assert (await client.get("/v1/models")).status_code == 200


@pytest.mark.parametrize(
    ("authorization", "says"),
    {
        "none": (None, "did not provide an API key"),
        "empty": ("", "did not provide an API key"),
        "scheme alone": ("Bearer", "did not provide an API key"),
        "another scheme": ("Basic Z3A6", "did not provide an API key"),
        "unknown": ("Bearer gp-nobody-has-this-one", "Incorrect API key"),
        "almost": ("Bearer {key}x", "Incorrect API key"),
        "its prefix": ("Bearer gp-", "Incorrect API key"),
        "not ASCII": ("Bearer ключ".encode(), "Incorrect API key"),
    }.values(),
)
async def test_any_other_key_gets_401_in_openai_shape_that_says_what_to_do(keyed_stack, key, authorization, says):
    headers = {}
    if authorization is not None:
        headers["authorization"] = authorization.format(key=key) if isinstance(authorization, str) else authorization
    async with keyed_stack.client() as client:
        response = await speak(client, **headers)
    error = response.json()["error"]
    assert response.status_code == 401
    assert error["code"] == "invalid_api_key"
    assert error["type"] == "invalid_request_error"
    assert says in error["message"]
    assert "Authorization: Bearer" in error["message"]
    assert key not in response.text
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.headers["x-request-id"].startswith("req_")


async def test_the_scheme_may_be_written_in_any_case(keyed_stack, key):
    async with keyed_stack.client() as client:
        assert (await speak(client, authorization=f"bearer   {key}")).status_code == 200


async def test_a_body_is_not_read_before_the_key(keyed_stack):
    _, port = keyed_stack.url.rsplit(":", 1)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    writer.write(b"POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n")
    await writer.drain()
    assert b"401" in await asyncio.wait_for(reader.readline(), 5)
    writer.close()


@pytest.mark.parametrize("path", ["/health", "/ready", "/docs", "/docs/", "/docs/openapi.json"])
async def test_health_and_documentation_need_no_key(keyed_stack, path):
    async with keyed_stack.client() as client:
        assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize("path", ["/v1", "/nothing", "/docs/../v1/models", "/health/../v1/models", "//v1/models"])
async def test_everything_else_needs_one(keyed_stack, path):
    _, port = keyed_stack.url.rsplit(":", 1)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    status = await reader.readline()
    assert b"401" in status or b"404" in status, status
    writer.close()


async def test_the_lists_need_a_key_unless_they_are_opened_for_open_webui(settings, key, engine):
    opened = replace(settings, auth=AuthSettings(open_lists=True))
    async with running_stack(settings, engine) as closed, closed.client() as client:
        assert [(await client.get(path)).status_code for path in LISTS] == [401] * 4
    async with running_stack(opened, ToneEngine()) as stack, stack.client() as client:
        assert [(await client.get(path)).status_code for path in LISTS] == [200] * 4
        assert (await client.post("/v1/models")).status_code == 401
        assert (await client.get("/v1/models/tts-1")).status_code == 401
        assert (await speak(client)).status_code == 401


async def test_a_revoked_key_is_refused_and_a_new_one_known_within_seconds(keyed_stack, key, settings, registry):
    async with keyed_stack.client(key) as client:
        assert (await speak(client)).status_code == 200
        await registry.revoke("test")

        async def refused():
            response = await speak(client)
            return response.status_code == 401 and "was revoked" in response.json()["error"]["message"]

        await eventually(refused, within_s=keys.CACHE_S + 2)
    _, other = await make_key(settings, "other")
    async with keyed_stack.client(other) as client:
        assert (await speak(client)).status_code == 200


async def test_the_first_key_closes_a_gateway_that_runs_without(settings, engine, monkeypatch):
    monkeypatch.setattr(keys, "CACHE_S", 0.2)
    async with running_stack(settings, engine) as stack, stack.client() as client:
        assert (await speak(client)).status_code == 200
        _, key = await make_key(settings)

        async def closed():
            return (await speak(client)).status_code == 401

        await eventually(closed)
        assert (await speak(client, authorization=f"Bearer {key}")).status_code == 200


async def test_revoking_the_last_key_does_not_open_the_door(settings, key, engine, registry):
    await registry.revoke("test")
    async with running_stack(settings, engine) as stack, stack.client() as client:
        assert (await speak(client)).status_code == 401


async def test_with_a_key_every_address_and_every_host_name_is_served(settings, key, engine):
    everywhere = replace(settings, server=ServerSettings(host="0.0.0.0", port=0))
    async with running_stack(everywhere, engine) as stack, stack.client(key) as client:
        response = await speak(client, host="tts.example.com", origin="https://app.example.com")
        assert response.status_code == 200


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/audio/speech"])
async def test_web_sockets_pass_the_same_door(keyed_stack, path):
    with pytest.raises(InvalidStatus) as caught:
        await connect(f"{keyed_stack.url.replace('http', 'ws')}{path}", proxy=None)
    assert caught.value.response.status_code == 401
    assert b"invalid_api_key" in caught.value.response.body


async def test_a_web_page_cannot_open_a_web_socket_to_a_gateway_without_keys(stack):
    with pytest.raises(InvalidStatus) as caught:
        await connect(f"{stack.url.replace('http', 'ws')}/v1", origin="https://evil.example", proxy=None)
    assert caught.value.response.status_code == 403
    assert b"forbidden_origin" in caught.value.response.body


async def test_keys_may_lie_in_either_database(settings, database, engine):
    url = database.render_as_string(hide_password=False)
    settings = replace(settings, database=DatabaseSettings(url=url))
    _, key = await make_key(settings, requests_per_minute=5)
    async with running_stack(settings, engine) as stack, stack.client(key) as client:
        response = await speak(client)
        assert response.status_code == 200
        assert response.headers["x-ratelimit-remaining-requests"] == "4"
    async with Database(database) as opened:
        (made,) = await KeyRegistry(opened).all()
        assert made.last_used_at is not None
        assert [day.requests for day in await KeyRegistry(opened).usage(made.id)] == [1]


async def test_the_key_of_the_settings_opens(settings, engine):
    key = "a-long-random-string-of-the-operator"
    settings = replace(settings, auth=AuthSettings(api_key=key))
    async with running_stack(settings, engine) as stack, stack.client(key) as client:
        assert (await speak(client)).status_code == 200
    async with running_stack(settings, ToneEngine()) as stack, stack.client("none") as client:
        assert (await speak(client)).status_code == 401


async def test_a_key_never_reaches_the_log(keyed_stack, key, caplog):
    async with keyed_stack.client(key) as client:
        await speak(client)
        await client.get(f"/nothing?key={key}")
    async with keyed_stack.client(f"{key}x") as client:
        await speak(client)
    assert "/v1/audio/speech" in caplog.text
    assert "'key_id': 'key_" in caplog.text
    assert key not in caplog.text


async def test_use_is_counted_by_day_and_only_what_was_sent(keyed_stack, key, settings, registry, engine):
    async with keyed_stack.client(key) as client:
        for _ in range(2):
            await speak(client)
        assert (await client.post("/synthesize", json={"text": "Hello."})).status_code == 200
        await client.post("/v1/audio/speech", json={**REQUEST, "voice": "nobody"})

        def broken(request, index):
            raise RuntimeError("broken")

        engine.step = broken
        assert (await speak(client)).status_code == 500
    (made,) = await registry.all()

    async def counted():
        days = await registry.usage(made.id)
        return days and days[0].requests == 4 and days

    (day,) = await eventually(counted, within_s=10)
    assert day.characters == 2 * len(REQUEST["input"]) + len("Hello.")
    assert day.audio_seconds == pytest.approx(0.05 * day.characters)
    assert (await registry.all())[0].last_used_at is not None


class FakeRegistry:
    """A database that can be counted and taken away."""

    def __init__(self, key):
        self.key = key
        self.asked = 0
        self.away = False

    async def find(self, key_hash):
        self.asked += 1
        await asyncio.sleep(0.01)
        if self.away:
            raise DatabaseError("away")
        return self.key if key_hash == hash_key("good") else None


@pytest.fixture
async def fake(settings):
    made, _ = await make_key(settings)
    return FakeRegistry(made)


async def test_many_requests_at_once_ask_the_database_once(fake):
    cache = Keys(fake, UsageLog(fake))
    found = await asyncio.gather(*(cache.authenticate("Bearer good") for _ in range(100)))
    assert set(found) == {fake.key}
    await cache.authenticate("Bearer good")
    assert fake.asked == 1


async def test_the_cache_is_bounded_even_against_invented_keys(fake, monkeypatch):
    monkeypatch.setattr(keys, "_MAX_CACHED", 10)
    cache = Keys(fake, UsageLog(fake))
    for index in range(30):
        with pytest.raises(keys.ApiError):
            await cache.authenticate(f"Bearer bad{index}")
    assert len(cache._entries) == 10


async def test_a_known_key_stays_valid_while_the_database_is_away_and_an_unknown_one_gets_503(fake, monkeypatch):
    monkeypatch.setattr(keys, "CACHE_S", 0)
    cache = Keys(fake, UsageLog(fake))
    await cache.authenticate("Bearer good")
    fake.away = True
    assert await cache.authenticate("Bearer good") == fake.key
    with pytest.raises(keys.ApiError) as caught:
        await cache.authenticate("Bearer other")
    assert caught.value.kind.status == 503
    monkeypatch.setattr(keys, "_STALE_S", 0)
    with pytest.raises(keys.ApiError):
        await cache.authenticate("Bearer good")


async def test_what_cannot_be_written_now_is_written_later(settings, registry):
    made, _ = await make_key(settings)
    usage = UsageLog(registry)
    record, registry.record = registry.record, None

    async def away(*_):
        raise DatabaseError("away")

    registry.record = away
    usage.add(made.id, characters=3, audio_s=1.0)
    await usage.flush()
    registry.record = record
    usage.add(made.id, characters=4, audio_s=1.0)
    await usage.flush()
    (day,) = await registry.usage(made.id)
    assert (day.requests, day.characters, day.audio_seconds) == (2, 7, 2.0)


async def test_what_is_being_written_when_the_gateway_stops_is_not_lost(settings, registry):
    made, _ = await make_key(settings)
    usage = UsageLog(registry)
    record, writing = registry.record, asyncio.Event()

    async def slow(*_):
        writing.set()
        await asyncio.sleep(3600)

    registry.record = slow
    usage.add(made.id, characters=3, audio_s=1.0)
    flushing = asyncio.create_task(usage.flush())
    await writing.wait()
    flushing.cancel()
    await asyncio.wait([flushing])
    registry.record = record
    await usage.flush()
    (day,) = await registry.usage(made.id)
    assert (day.requests, day.characters, day.audio_seconds) == (1, 3, 1.0)


def test_a_key_has_no_secret_to_show(fake):
    assert b"hash" not in msgspec.json.encode(fake.key)
    assert fake.key.limits == KeyLimits()
