"""The lexicon of a key: whose requests it counts for, how soon a change is seen, and what a bad one does."""

import asyncio
from dataclasses import replace

import msgspec
import pytest
from sqlalchemy import text

from gateway import key_lexicons, keys
from gateway.key_lexicons import KeyLexicons
from shared.database import Database, database_url
from tests.support.databases import make_key
from tests.support.stack import running_stack
from tests.support.waiting import eventually
from voices import key_lexicon
from voices.api_keys import KeyId, KeyRegistry

WORDS = {"Gepard": "key", "cat": "key cat"}


@pytest.fixture
async def keyed(settings, engine):
    """A stack with a lexicon in its settings; `mine` has one too, `bare` has none."""
    mine, bare = await make_key(settings, "mine", lexicon=WORDS), await make_key(settings, "bare")
    settings = msgspec.structs.replace(settings, lexicon={"Gepard": "settings", "dog": "settings dog"})
    async with running_stack(settings, engine) as stack:
        stack.mine, stack.bare = mine[1], bare[1]
        yield stack


@pytest.fixture
async def database(settings):
    async with Database(database_url(settings)) as database:
        yield database


async def spoken(stack, engine, key, words="Gepard cat dog", **options):
    async with stack.client(key) as client:
        response = await client.post(
            "/v1/audio/speech",
            json={"model": "tts-1", "input": words, "voice": "low", "response_format": "pcm", **options},
        )
    assert response.status_code == 200, response.text
    return engine.requests[-1].segment.text


async def test_the_request_wins_over_its_key_and_the_key_over_the_settings(keyed, engine):
    assert await spoken(keyed, engine, keyed.mine) == "key key cat settings dog"
    assert await spoken(keyed, engine, keyed.mine, lexicon={"Gepard": "request"}) == "request key cat settings dog"
    assert await spoken(keyed, engine, keyed.bare) == "settings cat settings dog"


async def test_synthesize_uses_the_lexicon_of_the_key_too(keyed, engine):
    for key, expected in ((keyed.mine, "key key cat"), (keyed.bare, "settings cat")):
        async with keyed.client(key) as client:
            assert (await client.post("/synthesize", json={"text": "Gepard cat"})).status_code == 200
        assert engine.requests[-1].segment.text == expected


async def test_a_preview_which_other_keys_hear_too_leaves_it_out(keyed, engine, database):
    await KeyRegistry(database).set_lexicon("mine", {"Hello": "Curses"})
    async with keyed.client(keyed.mine) as client:
        assert (await client.get("/v1/voices/low/preview")).status_code == 200
    assert "Hello" in "".join(request.segment.text for request in engine.requests)


async def test_a_change_is_seen_by_a_running_gateway_within_seconds(keyed, engine, database):
    registry = KeyRegistry(database)
    assert await spoken(keyed, engine, keyed.mine, "Gepard") == "key"

    async def says(expected):
        async def heard():
            return await spoken(keyed, engine, keyed.mine, "Gepard") == expected

        await eventually(heard, within_s=keys.CACHE_S + 2)

    await registry.set_lexicon("mine", {"Gepard": "changed"})
    await says("changed")
    await registry.set_lexicon("mine", None)
    await says("settings")


BAD_ROWS = {
    "not JSON": "Gepard: key",
    "empty": "",
    "null": "null",
    "list": '["Gepard"]',
    "number": '{"Gepard": 1}',
    "nested": "[" * 5000,
    "sign": '{"!": "bang"}',
    "long": f'{{"a": "{"b" * 201}"}}',
    "many": key_lexicon.dump({f"w{index}": "a" for index in range(1001)}),
}


@pytest.mark.parametrize("row", BAD_ROWS.values(), ids=BAD_ROWS.keys())
async def test_a_row_that_cannot_be_used_is_logged_once_and_ignored(settings, row, caplog):
    made, _ = await make_key(settings)
    lexicons = KeyLexicons(settings.limits.max_lexicon_entries)
    for _ in range(3):
        assert await lexicons.of(replace(made, lexicon=row)) == ()
    assert caplog.text.count("key_lexicon_ignored") == 1
    assert made.id in caplog.text
    assert "Gepard" not in caplog.text


async def test_a_bad_row_does_not_break_requests(keyed, engine, database, monkeypatch):
    monkeypatch.setattr(keys, "CACHE_S", 0)
    async with database.session() as session:
        await session.execute(text("UPDATE api_keys SET lexicon = X'FF00' WHERE name = 'mine'"))
    assert await spoken(keyed, engine, keyed.mine) == "settings cat settings dog"


@pytest.fixture
def made(monkeypatch):
    """The lexicons that were made, as entries."""
    calls = []

    def count(entries, max_entries):
        calls.append(entries)
        return usable_lexicon(entries, max_entries)

    usable_lexicon = key_lexicons.usable_lexicon
    monkeypatch.setattr(key_lexicons, "usable_lexicon", count)
    return calls


async def test_a_lexicon_is_made_once_for_many_requests_and_again_when_it_changes(settings, made):
    key, _ = await make_key(settings, lexicon=WORDS)
    lexicons = KeyLexicons(1000)
    found = await asyncio.gather(*(lexicons.of(replace(key)) for _ in range(50)))
    assert len(set(found)) == 1
    assert made == [WORDS]
    await lexicons.of(replace(key, lexicon=key_lexicon.dump({"a": "b"})))
    assert made == [WORDS, {"a": "b"}]


async def test_a_request_that_hangs_up_leaves_the_lexicon_to_the_others(settings, made):
    key, _ = await make_key(settings, lexicon=WORDS)
    lexicons = KeyLexicons(1000)
    first, second = (asyncio.create_task(lexicons.of(key)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert len(await second) == 1
    assert made == [WORDS]


async def test_lexicons_held_are_bounded_and_one_that_was_removed_is_let_go(settings, monkeypatch):
    monkeypatch.setattr(key_lexicons, "_MAX_HELD", 3)
    key, _ = await make_key(settings, lexicon=WORDS)
    many = [replace(key, id=KeyId(f"key_{index}")) for index in range(10)]
    lexicons = KeyLexicons(1000)
    for one in many:
        assert len(await lexicons.of(one)) == 1
    assert len(lexicons._held) == 3
    assert await lexicons.of(replace(many[-1], lexicon=None)) == ()
    assert len(lexicons._held) == 2
