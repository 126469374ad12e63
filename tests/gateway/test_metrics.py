"""GET /metrics: the values after known requests."""

import asyncio

import httpx
import msgspec
import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gateway.errors import ERRORS
from shared.contracts import Audio, Done, Heartbeat, HostFigures, Started, WorkerId, WorkerTotals
from shared.errors import EngineError
from shared.settings import LimitsSettings
from tests.support.engines import ToneEngine, engine_info
from tests.support.jobs import speech_job
from tests.support.stack import running_stack
from tests.support.waiting import eventually
from tests.support.workers import Asker, running_worker

REQUEST = {"model": "tts-1", "input": "Hello there. Good day.", "voice": "low", "response_format": "pcm", "seed": 3}
SPEECH = "/v1/audio/speech"


class Scrape:
    """One reading of /metrics."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in parse_text(text)}
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name that have these labels."""
        wanted = labels.items()
        return sum(s.value for s in self.samples if s.name == name and wanted <= s.labels.items())

    def label_values(self, label: str) -> set[str]:
        return {sample.labels[label] for sample in self.samples if label in sample.labels}


async def scrape(client: httpx.AsyncClient) -> Scrape:
    response = await client.get("/metrics")
    assert response.status_code == 200
    return Scrape(response.text)


async def test_a_spoken_request_is_counted_once_in_each_figure(stack, client):
    response = await client.post(SPEECH, json=REQUEST)
    audio_s = len(response.content) / 2 / 24000
    read = await scrape(client)
    labels = {"model": "tone", "format": "pcm"}
    assert read.value("gepard_http_requests_total", method="POST", route=SPEECH, status="200") == 1
    assert read.value("gepard_speech_requests_total", **labels, outcome="done") == 1
    assert read.value("gepard_time_to_first_audio_seconds_count", **labels) == 1
    assert 0 < read.value("gepard_time_to_first_audio_seconds_sum", **labels) < 5
    assert read.value("gepard_queue_wait_seconds_count", model="tone") == 1
    assert read.value("gepard_real_time_factor_count", model="tone") == 1
    assert read.value("gepard_audio_seconds_total", **labels) == pytest.approx(audio_s, abs=0.05)
    assert read.value("gepard_stream_deficit_seconds_count", **labels) == 1
    assert read.value("gepard_errors_total", route=SPEECH) == 0
    assert read.value("gepard_active_streams") == read.value("gepard_waiting_requests") == 0


@pytest.mark.parametrize("audio_format", ["mp3", "opus", "wav"])
async def test_the_time_of_encoded_audio_is_known(client, audio_format):
    await client.post(SPEECH, json={**REQUEST, "response_format": audio_format, "speed": 0.5})
    read = await scrape(client)
    characters = len("Hello there. Good day.")
    # 50 ms a character, at half the tempo; the segmenter may drop a space.
    assert read.value("gepard_audio_seconds_total", format=audio_format) == pytest.approx(0.1 * characters, abs=0.25)


async def test_the_simple_route_counts_as_speech_but_is_no_stream(client):
    assert (await client.post("/synthesize", json={"text": "Hello."})).status_code == 200
    read = await scrape(client)
    assert read.value("gepard_speech_requests_total", outcome="done") == 1
    assert read.value("gepard_real_time_factor_count") == 1
    assert read.value("gepard_time_to_first_audio_seconds_count") == 0
    assert read.value("gepard_stream_deficit_seconds_count") == 0


REFUSALS = {
    "unknown model": ({"model": "no-such-model-6f1"}, "model_not_found", 404),
    "unknown voice": ({"voice": "nobody-6f1"}, "voice_not_found", 400),
    "unknown format": ({"response_format": "midi-6f1"}, "invalid_value", 400),
}


@pytest.mark.parametrize(("change", "code", "status"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_refusal_is_counted_by_its_code_and_its_words_never_become_labels(client, change, code, status):
    assert (await client.post(SPEECH, json={**REQUEST, **change})).status_code == status
    response = await client.get("/metrics")
    read = Scrape(response.text)
    assert read.value("gepard_errors_total", route=SPEECH, code=code) == 1
    assert read.value("gepard_http_requests_total", route=SPEECH, status=str(status)) == 1
    assert read.value("gepard_speech_requests_total") == 0
    assert "6f1" not in response.text


async def test_paths_become_their_template_or_none_at_all(client):
    for path in ("/v1/models/tone", "/v1/models/no-6f1", "/nothing/6f1", "/.env"):
        await client.get(path)
    await client.request("PROPFIND", "/health")
    response = await client.get("/metrics")
    read = Scrape(response.text)
    assert read.value("gepard_http_requests_total", route="/v1/models/{model_id}") == 2
    assert read.value("gepard_errors_total", route="none", code="not_found") == 2
    assert read.label_values("method") <= {"GET", "POST", "other"}
    assert "6f1" not in response.text.lower()


async def test_the_guard_refuses_it_like_the_rest_and_is_counted(client):
    assert (await client.get("/metrics", headers={"host": "evil.example"})).status_code == 403
    read = await scrape(client)
    assert read.value("gepard_errors_total", code="forbidden_host") == 1


async def test_a_hang_up_is_no_error_and_frees_the_gauges(settings):
    engine = ToneEngine(step=lambda request, index: asyncio.sleep(0.05))
    async with running_stack(settings, engine) as stack, stack.client() as client:
        async with client.stream("POST", SPEECH, json={**REQUEST, "input": "word " * 50}) as response:
            body = response.aiter_raw()  # dropped, it would close the connection
            await anext(body)
            read = await scrape(client)
            assert read.value("gepard_active_streams", model="tone") == 1
            assert read.value("gepard_worker_capacity_streams") == 8
        ended = {"outcome": "client_gone", "model": "tone"}
        read = await eventually(lambda: _counted(client, "gepard_speech_requests_total", **ended))
        assert read.value("gepard_active_streams") == 0
        assert read.value("gepard_errors_total", route=SPEECH) == 0
        assert read.value("gepard_stream_deficit_seconds_count") == 0


async def test_a_hang_up_in_the_queue_frees_the_gauge_of_waiting_requests(settings):
    engine = ToneEngine(engine_info(capacity=1), step=lambda request, index: asyncio.sleep(3600))
    async with running_stack(settings, engine) as stack, stack.client() as client:
        asking = [asyncio.create_task(client.post(SPEECH, json=REQUEST)) for _ in range(2)]
        read = await eventually(lambda: _counted(client, "gepard_waiting_requests"))
        read = await eventually(lambda: _counted(client, "gepard_active_streams"))
        assert read.value("gepard_waiting_requests", model="tone") == 1
        for task in asking:
            task.cancel()
        await eventually(lambda: _counted(client, "gepard_speech_requests_total", at_least=2))
        read = await scrape(client)
        assert read.value("gepard_waiting_requests") == read.value("gepard_active_streams") == 0
        assert read.value("gepard_queue_wait_seconds_count") == 1


def _fails_at(step_index):
    def step(request, index):
        if index == step_index:
            raise EngineError("no")
        return asyncio.sleep(0.01)

    return step


@pytest.mark.parametrize("step_index", [0, 15], ids=["before the first byte", "after the first byte"])
async def test_a_failure_is_counted_by_its_code(settings, step_index):
    async with running_stack(settings, ToneEngine(step=_fails_at(step_index))) as stack, stack.client() as client:
        try:
            await client.post(SPEECH, json=REQUEST)
        except httpx.RemoteProtocolError:
            assert step_index > 0
        read = await eventually(lambda: _counted(client, "gepard_errors_total", route=SPEECH))
        assert read.value("gepard_errors_total", route=SPEECH, code="engine_error") == 1
        assert read.value("gepard_speech_requests_total", outcome="failed") == 1
        assert read.value("gepard_real_time_factor_count") == 0
        assert read.value("gepard_active_streams") == 0
        await eventually(lambda: _counted(client, "gepard_worker_failed_streams_total"))


async def test_a_lost_worker_is_counted_and_its_series_go(settings):
    settings = replace(settings, worker=replace(settings.worker, drain_s=0), limits=LimitsSettings(max_attempts=1))
    engine = ToneEngine(step=lambda request, index: asyncio.sleep(3600))
    async with running_stack(settings, engine) as stack, stack.client() as client:
        asking = asyncio.create_task(client.post(SPEECH, json=REQUEST))
        await eventually(lambda: engine.running)
        await stack.workers[0].kill()
        assert (await asking).status_code == 503
        read = await scrape(client)
        assert read.value("gepard_lost_attempts_total", model="tone", reason="worker_lost") == 1
        assert read.value("gepard_errors_total", code="worker_lost") == 1
        assert read.label_values("worker") == set()


async def test_an_engine_slower_than_real_time_is_an_underrun(settings):
    engine = ToneEngine(step=lambda request, index: asyncio.sleep(0.12))  # for 50 ms of tone
    async with running_stack(settings, engine) as stack, stack.client() as client:
        await client.post(SPEECH, json={**REQUEST, "input": "abcdefghijkl"})
        read = await scrape(client)
    assert read.value("gepard_underruns_total", model="tone", format="pcm") == 1
    assert read.value("gepard_stream_deficit_seconds_sum") > 0.3
    assert read.value("gepard_real_time_factor_sum") > 1


async def test_a_client_that_takes_nothing_for_a_while_is_no_underrun(settings):
    request = {**REQUEST, "input": "word " * 800, "response_format": "wav", "sample_rate": 48000}
    async with running_stack(settings, ToneEngine(chunk_chars=5)) as stack, stack.client() as client:
        async with client.stream("POST", SPEECH, json=request) as response:
            body = response.aiter_raw()
            await anext(body)
            await asyncio.sleep(1.5)
            async for _ in body:
                pass
        read = await scrape(client)
    assert read.value("gepard_stream_deficit_seconds_count") == 1
    assert read.value("gepard_underruns_total") == 0


async def test_workers_figures_grow_with_what_they_make(client):
    await client.post(SPEECH, json=REQUEST)
    read = await eventually(lambda: _counted(client, "gepard_worker_streams_total"))
    made_s = read.value("gepard_worker_audio_seconds_total", model="tone")
    assert made_s > 0.5
    # A frame of the tone engine is 10 ms.
    assert read.value("gepard_worker_frames_total", model="tone") == pytest.approx(100 * made_s)
    assert read.value("gepard_worker_busy_seconds_total") > 0
    assert read.value("gepard_worker_cpu_seconds_total") > 0
    assert read.value("gepard_worker_accepting") == 1


async def test_two_gateways_count_their_own_requests_and_see_the_same_worker(settings):
    async with (
        running_stack(settings, ToneEngine()) as one,
        running_stack(settings) as two,
        one.client() as first,
        two.client() as second,
    ):
        await two.ready()
        await first.post(SPEECH, json=REQUEST)
        await first.post(SPEECH, json=REQUEST)
        await second.post(SPEECH, json=REQUEST)
        await eventually(lambda: _counted(first, "gepard_worker_streams_total", at_least=3))
        await eventually(lambda: _counted(second, "gepard_worker_streams_total", at_least=3))
        reads = [await scrape(first), await scrape(second)]
    assert [read.value("gepard_speech_requests_total") for read in reads] == [2, 1]
    assert [read.value("gepard_worker_streams_total") for read in reads] == [3, 3]
    assert reads[0].label_values("worker") == reads[1].label_values("worker")


async def test_a_hosts_figures_are_there_once_however_many_workers_it_has(settings):
    engines = [ToneEngine(), ToneEngine()]
    for engine in engines:
        engine.host = HostFigures(
            host="h-1", backend="torch", device="cpu", streams=3, capacity=8, step_ms=20.0, codec_ms=2.0, frames=7
        )
    async with running_stack(settings, *engines) as stack, stack.client() as client:
        read = await eventually(lambda: _counted(client, "gepard_worker_host", at_least=2))
    assert read.value("gepard_host_step_seconds", host="h-1", device="cpu", backend="torch") == 0.02
    assert read.value("gepard_host_capacity_streams") == 8
    assert read.value("gepard_host_frames_total") == 7


async def test_requests_that_a_client_library_repeats_are_counted(client):
    for count in ("0", "1", "2", "junk", "9" * 50):
        await client.post(SPEECH, json=REQUEST, headers={"x-stainless-retry-count": count})
    assert (await scrape(client)).value("gepard_client_retries_total", route=SPEECH) == 2


@pytest.mark.parametrize(
    ("accept", "parse", "content_type"),
    [
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", parse_text, "text/plain"),
        ("application/openmetrics-text;version=1.0.0", parse_openmetrics, "application/openmetrics-text"),
    ],
    ids=["text", "openmetrics"],
)
async def test_both_formats_of_prometheus_are_written(client, accept, parse, content_type):
    await client.post(SPEECH, json=REQUEST)
    response = await client.get("/metrics", headers={"accept": accept})
    assert response.headers["content-type"].startswith(content_type)
    families = {family.name for family in parse(response.text)}
    assert {"gepard_time_to_first_audio_seconds", "gepard_worker_frames", "process_cpu_seconds"} <= families


async def test_every_code_label_is_one_of_the_table(client):
    await client.post(SPEECH, content=b"{")
    read = await scrape(client)
    assert read.label_values("code") <= set(ERRORS)


async def _counted(client, name, *, at_least=1, **labels):
    read = await scrape(client)
    return read if read.value(name, **labels) >= at_least else None


async def test_audio_events_of_a_worker_tell_their_time(settings):
    job = speech_job("timed", speed=2.0)
    async with running_worker(ToneEngine(), settings):
        asker = Asker(settings.redis.url)
        events = await asker.ask(job)
        await asker.redis.aclose(close_connection_pool=True)
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Done)
    total_s = sum(event.audio_s for event in events if isinstance(event, Audio))
    assert total_s == pytest.approx(3 * 0.05 / 2)


def test_a_heartbeat_of_an_older_worker_is_read():
    beat = Heartbeat(worker=WorkerId("w"), info=engine_info(), active=1, capacity=2, accepting=True)
    old = msgspec.to_builtins(beat)
    del old["totals"]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(old), type=Heartbeat).totals == WorkerTotals()
