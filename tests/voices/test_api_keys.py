"""Keys in the database: what is stored, found, revoked and counted, on SQLite and PostgreSQL alike."""

import asyncio
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import text

from shared.database import Database
from shared.errors import SettingsError
from voices import key_lexicon, migrations
from voices.api_keys import DayUsage, KeyLimits, KeyNotFound, KeyRegistry, hash_key

NO_LIMITS = KeyLimits()
LIMITS = KeyLimits(requests_per_minute=1, characters_per_day=2**40, concurrent_streams=3)


@pytest.fixture
async def opened(database):
    await migrations.upgrade(database)
    async with Database(database) as opened:
        yield opened


@pytest.fixture
async def registry(opened):
    return KeyRegistry(opened)


async def test_a_key_is_long_random_and_recognisable_and_only_its_hash_is_stored(opened, registry):
    made, key = await registry.create("laptop", LIMITS)
    other, other_key = await registry.create("laptop", NO_LIMITS)
    assert key != other_key
    assert made.id != other.id
    assert key.startswith("gp-")
    assert len(key) == 46
    assert made.prefix == key[:8]
    async with opened.session() as session:
        stored = str((await session.execute(text("SELECT * FROM api_keys"))).all())
    assert key[8:] not in stored
    assert hash_key(key) in stored


async def test_a_key_is_found_by_its_hash_with_its_limits(registry):
    made, key = await registry.create("laptop", LIMITS)
    assert await registry.find(hash_key(key)) == made
    assert made.limits == LIMITS
    assert await registry.find(hash_key(f"{key} ")) is None


async def test_keys_are_listed_oldest_first_with_the_revoked_ones(registry):
    made = [(await registry.create(name, NO_LIMITS))[0] for name in "cab"]
    await registry.revoke(made[0].id)
    assert [key.name for key in await registry.all()] == ["c", "a", "b"]


async def test_revoking_goes_by_id_or_by_a_name_that_one_valid_key_has(registry):
    first, _ = await registry.create("laptop", NO_LIMITS)
    second, _ = await registry.create("laptop", NO_LIMITS)
    with pytest.raises(KeyNotFound, match=f"{first.id}, {second.id}|{second.id}, {first.id}"):
        await registry.revoke("laptop")
    assert (await registry.revoke(first.id)).revoked_at is not None
    assert (await registry.revoke("laptop")).id == second.id
    with pytest.raises(KeyNotFound, match="gepard keys list"):
        await registry.revoke("laptop")


async def test_revoking_again_keeps_the_first_time(registry):
    made, _ = await registry.create("laptop", NO_LIMITS)
    first = await registry.revoke(made.id)
    assert await registry.revoke(made.id) == first


async def test_a_lexicon_is_stored_with_a_key_replaced_and_removed(registry):
    made, key = await registry.create("laptop", NO_LIMITS, {"Zoë": "zoey"})
    other, _ = await registry.create("phone", NO_LIMITS)
    assert key_lexicon.load(made.lexicon) == {"Zoë": "zoey"}
    assert other.lexicon is None
    assert await registry.find(hash_key(key)) == made
    changed = await registry.set_lexicon("laptop", {"nginx": "engine X"})
    assert key_lexicon.load(changed.lexicon) == {"nginx": "engine X"}
    assert await registry.find(hash_key(key)) == changed
    assert (await registry.set_lexicon(made.id, None)) == replace(made, lexicon=None)
    with pytest.raises(KeyNotFound, match="gepard keys list"):
        await registry.set_lexicon("nobody", None)


async def test_once_a_key_was_made_keys_are_configured_for_good(registry):
    assert not await registry.any_configured()
    made, _ = await registry.create("laptop", NO_LIMITS)
    await registry.revoke(made.id)
    assert await registry.any_configured()


async def test_the_key_of_the_settings_is_made_once_however_many_gateways_start(registry):
    adopted = await asyncio.gather(*(registry.adopt("a" * 20) for _ in range(5)))
    assert len({key.id for key in adopted}) == 1
    assert [key.name for key in await registry.all()] == ["from the settings"]


async def test_another_key_in_the_settings_revokes_the_one_before_and_no_other(registry):
    await registry.create("laptop", NO_LIMITS)
    old = await registry.adopt("a" * 20)
    new = await registry.adopt("b" * 20)
    late = await registry.adopt("a" * 20)
    assert late.id == old.id
    assert {key.id: key.revoked_at is not None for key in await registry.all() if key.name != "laptop"} == {
        old.id: True,
        new.id: False,
    }
    assert [key.revoked_at for key in await registry.all() if key.name == "laptop"] == [None]


@pytest.mark.parametrize("key", ["short", "a" * 19, "a" * 257, "with a space in it, long", "é" * 20, "a" * 20 + "\n"])
async def test_a_weak_or_unsendable_key_in_the_settings_is_refused_and_not_repeated(registry, key):
    with pytest.raises(SettingsError, match=r"auth\.api_key must have 20 to 256") as caught:
        await registry.adopt(key)
    assert key not in str(caught.value)


async def test_usage_adds_up_by_day_and_the_last_use_never_goes_back(registry):
    made, _ = await registry.create("laptop", NO_LIMITS)
    now = datetime.now(UTC)
    one = DayUsage(key_id=made.id, day=date(2026, 1, 2), requests=1, characters=10, audio_seconds=0.5)
    next_day = DayUsage(key_id=made.id, day=date(2026, 1, 3), requests=2, characters=1, audio_seconds=0.25)
    await registry.record([one, next_day], [(made.id, now)])
    await registry.record([one], [(made.id, now - timedelta(hours=1))])
    assert await registry.usage(made.id) == [
        DayUsage(key_id=made.id, day=date(2026, 1, 2), requests=2, characters=20, audio_seconds=1.0),
        next_day,
    ]
    assert (await registry.all())[0].last_used_at == now


async def test_gateways_that_record_at_once_lose_nothing(registry):
    keys = [(await registry.create(str(index), NO_LIMITS))[0] for index in range(4)]
    now = datetime.now(UTC)
    used = [DayUsage(key_id=key.id, day=date(2026, 1, 2), requests=1, characters=3) for key in keys]
    await asyncio.gather(
        *(registry.record(used[:: (-1) ** index], [(key.id, now) for key in keys]) for index in range(10))
    )
    for key in keys:
        assert [(day.requests, day.characters) for day in await registry.usage(key.id)] == [(10, 30)]


async def test_a_row_deleted_by_hand_does_not_stop_the_counting_of_others(opened, registry):
    gone, _ = await registry.create("gone", NO_LIMITS)
    made, _ = await registry.create("laptop", NO_LIMITS)
    async with opened.session() as session:
        await session.execute(text("DELETE FROM api_keys WHERE name = 'gone'"))
    day, now = date(2026, 1, 2), datetime.now(UTC)
    await registry.record(
        [DayUsage(key_id=key.id, day=day, requests=1) for key in (gone, made)], [(key.id, now) for key in (gone, made)]
    )
    assert await registry.usage(gone.id) == []
    assert [used.requests for used in await registry.usage(made.id)] == [1]
