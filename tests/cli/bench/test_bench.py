"""`gepard bench` against a real gateway with the tone engine, on loopback."""

import asyncio
import json
from dataclasses import replace

import httpx
import msgspec
import pytest
from msgspec.structs import replace as with_fields

from cli.bench.client import SpeechClient, Target
from cli.bench.command import Plan, run
from cli.bench.load import Bounds
from cli.bench.plot import save_plot
from shared.errors import EngineError
from shared.formats import AudioFormat
from shared.settings import LimitsSettings
from tests.support.engines import ToneEngine, engine_info
from tests.support.gepard import command, environment
from tests.support.stack import running_stack


def plan(url, **changes):
    target = {
        "url": f"{url}/v1",
        "api_key": "secret-key",
        "model": "tts-1",
        "voice": "low",
        "audio_format": AudioFormat.PCM,
        "speed": None,
        "timeout_s": 30.0,
    }
    target.update({name: changes.pop(name) for name in list(changes) if name in target})
    values = {
        "concurrency": 2,
        "rate_per_s": None,
        "max_in_flight": 64,
        "bounds": Bounds(count=6),
        "warm_up": 1,
        "seed": 1,
        "texts": None,
        "note": "",
    }
    return Plan(target=Target(**target), **{**values, **changes})


@pytest.fixture
async def stack(settings):
    async with running_stack(settings, ToneEngine(chunk_chars=3)) as stack:
        yield stack


@pytest.mark.parametrize("audio_format", list(AudioFormat))
async def test_every_format_is_measured(stack, audio_format):
    result, _ = await run(plan(stack.url, audio_format=audio_format, bounds=Bounds(count=3)))
    summary = result.summary
    assert (summary.completed, summary.errors) == (3, {})
    assert 0 < summary.first_audio_ms.p50 <= summary.first_audio_ms.max < 5000
    # 50 ms for three characters.
    characters = 5.5 * sum(result.streams.words)
    assert sum(result.streams.audio_s) == pytest.approx(characters * 0.05 / 3, rel=0.25)
    assert summary.times_real_time > 0


async def test_the_same_seed_asks_for_the_same_texts_with_or_without_warm_up(stack):
    words = [(await run(plan(stack.url, concurrency=1, warm_up=warm_up)))[0].streams.words for warm_up in (0, 3)]
    assert words[0] == words[1]


async def test_an_open_loop_is_measured(stack):
    result, _ = await run(plan(stack.url, concurrency=None, rate_per_s=50.0, bounds=Bounds(count=10)))
    assert result.summary.completed == 10
    assert result.asked.rate_per_s == 50
    assert len(set(result.streams.start_s)) == 10


async def test_a_refusal_is_counted_by_its_code(stack):
    result, _ = await run(plan(stack.url, voice="nobody", bounds=Bounds(count=2)))
    assert result.summary.errors == {"voice_not_found": 2}
    assert result.summary.first_audio_ms is None


async def test_a_broken_reply_is_an_error_whatever_came_before(settings):
    def step(request, index):
        if index >= 9:
            raise EngineError("no")

    async with running_stack(settings, ToneEngine(step=step)) as stack:
        result, _ = await run(plan(stack.url, warm_up=0, bounds=Bounds(count=3)))
    assert result.summary.errors == {"broken_off": 3}
    assert result.summary.times_real_time == 0


async def test_a_slow_engine_shows_as_underrun(settings):
    # Each chunk of 50 ms takes 80.
    engine = ToneEngine(engine_info(), step=lambda request, index: asyncio.sleep(0.08), chunk_chars=5)
    async with running_stack(settings, engine) as stack:
        result, _ = await run(plan(stack.url, concurrency=1, warm_up=0, bounds=Bounds(count=1)))
    assert result.summary.underrun_share == 1
    assert result.summary.deficit_ms.p50 > 200
    assert result.summary.real_time_factor.p50 > 1


async def test_overload_is_told_by_the_servers_own_code(settings):
    settings = with_fields(settings, limits=LimitsSettings(max_pending=1))
    engine = ToneEngine(engine_info(capacity=1), step=lambda request, index: asyncio.sleep(0.01))
    async with running_stack(settings, engine) as stack:
        result, _ = await run(plan(stack.url, warm_up=0, concurrency=6, bounds=Bounds(count=6)))
    assert result.summary.errors["server_overloaded"] >= 1
    assert result.summary.completed >= 1


async def test_nobody_listening_is_an_error(stack):
    result, _ = await run(plan("http://127.0.0.1:1", bounds=Bounds(count=2)))
    assert result.summary.errors == {"connect_failed": 2}


async def test_a_reply_that_does_not_end_is_cut_off(settings):
    engine = ToneEngine(step=lambda request, index: asyncio.sleep(3600))
    async with running_stack(settings, engine) as stack:
        result, _ = await run(plan(stack.url, warm_up=0, timeout_s=0.3, bounds=Bounds(count=1)))
    assert result.summary.errors == {"timeout": 1}


ODD_ERRORS = {
    "no JSON": (httpx.Response(502, text="<html>"), "http_502"),
    "no code": (httpx.Response(400, json={"error": {"message": "x", "code": None}}), "http_400"),
    "a number as code": (httpx.Response(400, json={"error": {"code": 400}}), "http_400"),
    "another shape": (httpx.Response(422, json={"detail": []}), "http_422"),
    "a list": (httpx.Response(500, json=["error"]), "http_500"),
    "a redirect": (httpx.Response(307, headers={"location": "/"}), "http_307"),
    "its own code": (httpx.Response(401, json={"error": {"code": "invalid_api_key"}}), "invalid_api_key"),
}


@pytest.mark.parametrize(("response", "error"), ODD_ERRORS.values(), ids=ODD_ERRORS.keys())
async def test_errors_of_other_servers_are_counted_by_code_or_status(response, error):
    async with SpeechClient(plan("http://127.0.0.1:1").target) as client:
        await client._http.aclose()
        client._http = httpx.AsyncClient(transport=httpx.MockTransport(lambda request: response))
        stream = await client.speak("hello", due=0.0)
    assert stream.error == error


async def test_only_parameters_of_the_openai_api_are_sent():
    target = plan("http://127.0.0.1:1").target
    assert set(target.body("hello")) == {"model", "input", "voice", "response_format"}
    assert replace(target, speed=1.5).body("hello")["speed"] == 1.5


async def test_the_result_has_circumstances_but_no_secrets(stack):
    url = stack.url.replace("://", "://user:password@")
    result, _ = await run(plan(url, bounds=Bounds(count=1), note="a test"))
    written = result.json()
    document = json.loads(written)
    assert document["asked"]["url"] == f"{stack.url}/v1"
    assert document["host"]["num_cpus"] >= 1
    assert document["note"] == "a test"
    assert len(document["load_average"]) == 2
    assert b"secret-key" not in written
    assert b"password" not in written
    assert len(written.splitlines()) == len(msgspec.structs.fields(type(result))) + 2


async def test_a_plot_is_a_png(stack, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "plot.png"
    result, _ = await run(plan(stack.url, bounds=Bounds(count=2)))
    save_plot(result, path)
    assert path.read_bytes().startswith(b"\x89PNG")


async def gepard(*arguments):
    """Run a command beside the stack in this process: status, standard output, standard error."""
    process = await asyncio.create_subprocess_exec(
        *command(*arguments), env=environment(), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_the_command_prints_a_table_and_writes_its_files(stack, tmp_path):
    pytest.importorskip("matplotlib")
    output, picture = tmp_path / "result.json", tmp_path / "plot.png"
    status, out, err = await gepard(
        "bench", "--url", f"{stack.url}/v1", "--voice", "low", "--concurrency", "2", "--requests", "4",
        "-o", str(output), "--plot", str(picture),
    )  # fmt: skip
    assert status == 0, err
    assert "first audio, ms" in out
    assert "4 of 4 streams completed" in out
    assert json.loads(output.read_text())["summary"]["completed"] == 4
    assert picture.exists()


WRONG_USE = {
    "no URL": ([], 2, "--url"),
    "no http": (["--url", "ftp://127.0.0.1/v1"], 2, "base URL"),
    "both loops": (["--url", "http://127.0.0.1:1/v1", "--rate", "1", "--concurrency", "1"], 2, "choose one"),
    "nothing completed": (["--url", "http://127.0.0.1:1/v1", "--requests", "1"], 1, "no stream came to its end"),
}


@pytest.mark.parametrize(("arguments", "status", "message"), WRONG_USE.values(), ids=WRONG_USE.keys())
async def test_wrong_use_is_told_in_a_line(arguments, status, message):
    got, _, err = await gepard("bench", *arguments)
    assert got == status
    assert message in err
    assert "Traceback" not in err
