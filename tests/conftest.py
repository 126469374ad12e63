"""Fixtures of every room."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from shared.settings import LimitsSettings, RedisSettings, ServerSettings, Settings, WorkerSettings
from tests.support.valkey import running_valkey

# A developer's own configuration must not decide a test.
for _name in [name for name in os.environ if name.startswith("GEPARD_")]:
    del os.environ[_name]


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Valkey for the whole session."""
    with running_valkey(tmp_path_factory.mktemp("v")) as url:
        yield url


@pytest.fixture
def redis_url(valkey_url: str) -> str:
    """The session's Valkey, emptied."""
    with Redis.from_url(valkey_url) as client:
        client.flushall()
    return valkey_url


@pytest.fixture
def settings(redis_url: str, tmp_path: Path) -> Settings:
    """Settings for a stack with the tone engine."""
    return Settings(
        model="tone",
        default_voice="low",
        data_dir=str(tmp_path),
        server=ServerSettings(port=0),
        redis=RedisSettings(url=redis_url, max_connections=256, warm_connections=4),
        limits=LimitsSettings(),
        worker=WorkerSettings(drain_s=2),
    )
