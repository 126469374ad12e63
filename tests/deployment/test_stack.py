"""What docker-compose.yml promises, with its own commands and environment: tests/support/host_stack.py."""

import asyncio
import os
import shutil
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from redis import AuthenticationError, Redis

from tests.support.clips import speech, wav
from tests.support.compose import ROOT
from tests.support.host_stack import HostStack, redis_url, up, wait_for_workers
from tests.support.voices import Api, error_of
from tests.support.waiting import eventually

SPEECH = "/v1/audio/speech"
LONG_TEXT = "The lighthouse keeper counted seven ships before the fog came in from the north. " * 40


def body(text: str = "Good morning to you all.", **more: Any) -> dict[str, Any]:
    return {"model": "tts-1", "voice": "alloy", "input": text, "response_format": "pcm", "seed": 1, **more}


async def metrics(stack: HostStack, name: str, key: str) -> str:
    """What a gateway shows at its own address."""
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False) as scraper:
        return (await scraper.get(f"http://{stack.address(name)}:8000/metrics")).text


# --- Who gets in ------------------------------------------------------------------------------------------


async def test_it_speaks_through_the_proxy_with_the_key_that_it_made(client):
    response = await client.post(SPEECH, json=body())
    assert response.status_code == 200, response.text
    assert len(response.content) > 24000
    assert response.headers["content-type"] == "audio/pcm"


@pytest.mark.parametrize("service", ["proxy", "gateway-1", "gateway-2"])
async def test_nothing_listens_without_a_key(stack: HostStack, service):
    url = f"http://{stack.address(service)}:{8080 if service == 'proxy' else 8000}"
    async with httpx.AsyncClient(base_url=url, trust_env=False) as stranger:
        answer = await stranger.post(SPEECH, json=body())
        assert error_of(answer)[:2] == (401, "invalid_api_key")
        assert (await stranger.get("/v1/voices")).status_code == 401
        assert (await stranger.get("/health")).status_code == 200


def test_valkey_and_postgresql_want_their_passwords(stack: HostStack):
    with Redis(host=stack.address("valkey")) as guest, pytest.raises(AuthenticationError):
        guest.ping()
    with Redis.from_url(redis_url(stack)) as member:
        assert member.config_get("appendonly") == {"appendonly": "yes"}
        assert member.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    with pytest.raises(asyncpg.InvalidPasswordError):
        asyncio.run(asyncpg.connect(host=stack.address("postgres"), user="gepard", password="guess", database="gepard"))


async def test_metrics_are_not_shown_to_the_world(stack: HostStack, client, key):
    assert (await client.get("/metrics")).status_code == 404
    assert "gepard_worker_capacity_streams" in await metrics(stack, "gateway-1", key)


async def test_the_secrets_are_in_no_log_and_stay_as_they_are(stack: HostStack, key):
    secrets = [key, *((stack.volume(f"secrets-{name}") / "password").read_text() for name in ("broker", "database"))]
    assert all(len(secret) >= 64 for secret in secrets)
    assert len(set(secrets)) == 3
    stack.run("secrets")
    assert (stack.volume("secrets-key") / "api-key").read_text() == key
    for path in stack.folder.glob("*.log"):
        text = path.read_text(errors="replace")
        assert not any(secret in text for secret in secrets), path


def test_the_worker_sees_no_secret_but_the_brokers(stack: HostStack):
    names = {volume.split(":")[0] for volume in stack.services["worker"]["volumes"]}
    assert names == {"secrets-broker"}


# --- What goes through ------------------------------------------------------------------------------------


async def test_a_first_byte_is_not_held_back_by_the_proxy(stack: HostStack, client, key):
    """When the first sound of a long text has come, its worker still works on the rest."""
    async with client.stream("POST", SPEECH, json=body(LONG_TEXT)) as response:
        pieces = response.aiter_raw()
        first = await anext(pieces)
        lines = [line for name in ("gateway-1", "gateway-2") for line in (await metrics(stack, name, key)).splitlines()]
        counts = [float(line.split()[-1]) for line in lines if line.startswith("gepard_active_streams{")]
        whole = len(first) + sum([len(piece) async for piece in pieces])
    assert sum(counts) >= 1
    assert len(first) < whole / 20


async def test_events_come_through_the_proxy_one_by_one(client):
    async with client.stream("POST", SPEECH, json=body(LONG_TEXT[:400], stream_format="sse")) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        pieces = [piece async for piece in response.aiter_raw()]
    assert len(pieces) > 3
    assert b"speech.audio.done" in pieces[-1]


async def test_a_clip_as_large_as_a_gateway_takes_reaches_it(client):
    """10 MB and a form around it; beyond it the gateway says so itself, not the proxy."""
    largest = 10 * 1024 * 1024
    response = await Api(client).upload(wav(speech(3.0)) + bytes(largest - 200_000), "large")
    assert response.status_code == 200, response.text
    await Api(client).delete(response.json()["id"])
    assert error_of(await Api(client).upload(bytes(largest + 1), "larger"))[:2] == (413, "clip_too_large")


async def test_voices_are_made_and_speak_through_both_gateways(stack: HostStack, client, key):
    voice = await Api(client).add(wav(speech(3.0, 180.0)), "carried")
    assert (await Api(client).settled(voice["id"]))["status"] == "ready"
    for name in ("gateway-1", "gateway-2"):
        url = f"http://{stack.address(name)}:8000"
        async with httpx.AsyncClient(
            base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=60, trust_env=False
        ) as one:
            assert (await Api(one).say(voice["id"])).status_code == 200
            assert (await one.get(f"/v1/voices/{voice['id']}/clip")).status_code == 200
    await Api(client).delete(voice["id"])


async def test_a_key_of_the_command_line_works_and_ends(stack: HostStack):
    """`docker compose exec gateway-1 gepard keys create app`"""
    key = stack.run("gateway-1", "gepard", "keys", "create", "app").decode().strip()
    async with httpx.AsyncClient(
        base_url=stack.url, headers={"authorization": f"Bearer {key}"}, timeout=60, trust_env=False
    ) as app:
        assert (await app.post(SPEECH, json=body())).status_code == 200
        stack.run("gateway-1", "gepard", "keys", "revoke", "app")

        async def is_refused() -> bool:
            return (await app.get("/v1/models")).status_code == 401

        await eventually(is_refused, within_s=10)


# --- Restarts under load ----------------------------------------------------------------------------------


@dataclass
class Load:
    """Clients that ask again and again, without retries of their own."""

    client: httpx.AsyncClient
    expected: dict[str, int]
    failures: list[str] = field(default_factory=list)
    done: int = 0

    async def ask(self, text: str) -> None:
        try:
            response = await self.client.post(SPEECH, json=body(text))
        except httpx.HTTPError as error:
            self.failures.append(f"{type(error).__name__}: {error}")
            return
        if response.status_code != 200:
            self.failures.append(f"{response.status_code}: {response.text[:200]}")
        elif len(response.content) != self.expected[text]:
            self.failures.append(f"{len(response.content)} bytes in place of {self.expected[text]}")
        self.done += 1

    async def run(self, texts: list[str], stop: asyncio.Event) -> None:
        while not stop.is_set():
            for text in texts:
                await self.ask(text)


@pytest.mark.timeout(600)
async def test_a_rolling_restart_under_load_fails_no_request(stack: HostStack, client):
    """Both workers and both gateways, one after the other, while four clients speak without a pause."""
    texts = ["Good morning to you all.", LONG_TEXT[:500], LONG_TEXT[:240]]
    load = Load(client, {text: len((await client.post(SPEECH, json=body(text))).content) for text in texts})
    stop = asyncio.Event()
    clients = [asyncio.create_task(load.run(texts[index % 3 :] + texts[: index % 3], stop)) for index in range(4)]
    try:
        for name in ("worker-1", "worker-2", "gateway-1", "gateway-2"):
            before = load.done
            assert await asyncio.to_thread(stack.stop, name) == 0
            await asyncio.to_thread(stack.start, name)
            await wait_for_workers(stack, 2)
            await eventually(lambda: load.done > before, within_s=60)  # noqa: B023
    finally:
        stop.set()
        await asyncio.gather(*clients)
    assert load.failures == []
    assert load.done >= 12


async def test_a_killed_gateway_fails_only_what_it_had_begun(stack: HostStack, client):
    """Clients that ask while it is gone, and those it had not answered, are served by the other one."""
    process = stack.processes.pop("gateway-2")
    asking = [asyncio.create_task(client.post(SPEECH, json=body(f"This is number {number}."))) for number in range(8)]
    await asyncio.sleep(0)
    process.kill()
    process.wait()
    try:
        for response in await asyncio.gather(*asking, return_exceptions=True):
            # Without a byte of its reply it was asked for again; with one, it was cut.
            assert isinstance(response, httpx.RemoteProtocolError) or response.status_code == 200, response
        for _ in range(6):
            assert (await client.post(SPEECH, json=body())).status_code == 200
    finally:
        await asyncio.to_thread(stack.start, "gateway-2")


# --- Backup, loss, restore: the last test, it loses everything --------------------------------------------


def script(stack: HostStack, name: str, *arguments: object) -> None:
    """A script of deploy/compose, with a `docker` that knows this stack."""
    path = f"{stack.docker()}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [ROOT / "deploy" / "compose" / name, *map(str, arguments)],
        env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(600)
async def test_all_voices_speak_again_after_backup_loss_and_restore(stack: HostStack, client, tmp_path: Path):
    pitches = {"ann": 210.0, "bob": 105.0, "cleo": 150.0}
    voices = {name: await Api(client).add(wav(speech(4.0, pitch)), name) for name, pitch in pitches.items()}
    before = {}
    for name, voice in voices.items():
        assert (await Api(client).settled(voice["id"]))["status"] == "ready"
        before[name] = (await Api(client).say(voice["id"])).content
    assert len(set(before.values())) == len(before)
    script(stack, "backup.sh", tmp_path / "saved")
    assert stat.S_IMODE((tmp_path / "saved" / "clips.tar").stat().st_mode) == 0o600

    await asyncio.to_thread(stack.stop_all)
    for name in ("clips", "postgres", "valkey"):
        shutil.rmtree(stack.volume(name))
    await asyncio.to_thread(up, stack)
    assert await Api(client).own() == []

    for name in ("gateway-1", "gateway-2"):
        await asyncio.to_thread(stack.stop, name)
    script(stack, "restore.sh", tmp_path / "saved")
    await asyncio.to_thread(stack.run, "migrate")
    await asyncio.to_thread(stack.start, "gateway-1", "gateway-2")
    assert {voice["name"] for voice in await Api(client).own()} == set(voices)
    for name, voice in voices.items():
        answer = await Api(client).say(voice["id"])
        assert answer.status_code == 200, answer.text
        assert answer.content == before[name]
