import re
import socket

import pytest

from cli.redis_check import require_redis, without_password
from shared.errors import SettingsError
from tests.support.valkey import running_valkey


async def test_a_redis_that_answers_will_do(redis_url: str):
    await require_redis(redis_url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "name a Redis: --redis-url, redis.url in the configuration, or GEPARD_REDIS_URL"),
        ("redis://127.0.0.1:1", "cannot use the Redis at redis://127.0.0.1:1: "),
        ("unix:///nowhere.sock", "cannot use the Redis at unix:///nowhere.sock: "),
        ("http://127.0.0.1", "redis.url cannot be read: "),
    ],
    ids=["none", "nobody there", "no socket", "not a Redis URL"],
)
async def test_one_that_cannot_be_used_is_said_so(url: str, message: str):
    with pytest.raises(SettingsError, match=re.escape(message)):
        await require_redis(url)


async def test_a_node_of_a_cluster_is_refused_before_its_slots_are_met(tmp_path):
    # A cluster wants a port; any free one of this machine will do.
    with (
        running_valkey(tmp_path, "--cluster-enabled", "yes", "--port", str(_free_port()), "--bind", "127.0.0.1") as url,
        pytest.raises(SettingsError, match="is a node of a Redis Cluster, which cannot be used"),
    ):
        await require_redis(url)


def _free_port() -> int:
    """Below 55535: the bus of a cluster has a port 10000 higher."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port < 55535:
            return port


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:secret@host:6379/0", "redis://host:6379/0"),
        ("redis://:p@ss@host", "redis://host"),
        ("redis://:p#ss?1@host:1", "redis://host:1"),
        ("redis+sentinel://:secret@a:1,b:2/m/0?sentinel_password=x", "redis+sentinel://a:1,b:2/m/0"),
        ("unix://user:secret@/run/valkey.sock?password=secret", "unix:///run/valkey.sock"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str):
    assert without_password(url) == shown
