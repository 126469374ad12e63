"""What clients list before they speak."""

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_models_are_those_of_live_workers_and_the_aliases_that_lead_to_them(shared_client):
    answer = (await shared_client.get("/v1/models")).json()
    assert answer["object"] == "list"
    assert {model["id"] for model in answer["data"]} == {"tone", "tts-1", "tts-1-hd", "gpt-4o-mini-tts"}
    assert all(model["object"] == "model" and isinstance(model["created"], int) for model in answer["data"])


async def test_audio_models_have_the_same_entries_under_both_names(shared_client):
    answer = (await shared_client.get("/v1/audio/models")).json()
    assert answer["models"] == answer["data"] == (await shared_client.get("/v1/models")).json()["data"]


@pytest.mark.parametrize("model", ["tone", "tts-1"])
async def test_a_model_can_be_retrieved(shared_client, model):
    assert (await shared_client.get(f"/v1/models/{model}")).json()["id"] == model


async def test_voices_are_one_list_under_both_names_and_both_paths(shared_client):
    answer = (await shared_client.get("/v1/voices")).json()
    assert answer == (await shared_client.get("/v1/audio/voices")).json()
    assert answer["data"] == answer["voices"]
    assert [voice["id"] for voice in answer["data"]] == ["low", "high"]
    assert set(answer["data"][0]) >= {"id", "name", "model", "kind", "description", "object"}


async def test_every_listed_voice_speaks_with_every_listed_model(shared_client):
    models = (await shared_client.get("/v1/models")).json()["data"]
    voices = (await shared_client.get("/v1/voices")).json()["data"]
    for model in models:
        for voice in voices:
            request = {"model": model["id"], "voice": voice["id"], "input": "a"}
            assert (await shared_client.post("/v1/audio/speech", json=request)).status_code == 200


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/health", "/ready"])
async def test_clients_that_warm_up_their_connection_are_answered(shared_client, path):
    assert (await shared_client.get(path)).status_code == 200


async def test_the_api_page_needs_nothing_from_elsewhere(shared_client):
    page = await shared_client.get("/docs")
    assert page.status_code == 200
    assert "://" not in page.text.replace("http://www.w3.org", "")
    for asset in ("swagger-ui-bundle.js", "swagger-ui.css", "swagger-ui-standalone-preset.js", "favicon-32x32.png"):
        assert f"/docs/assets/{asset}" in page.text
        assert (await shared_client.get(f"/docs/assets/{asset}")).status_code == 200


async def test_the_api_document_names_every_route(shared_client):
    paths = (await shared_client.get("/docs/openapi.json")).json()["paths"]
    assert set(paths) >= {
        "/v1/audio/speech", "/v1/models", "/v1/models/{model_id}", "/v1/voices", "/v1/audio/voices", "/health",
        "/ready", "/synthesize",
    }  # fmt: skip
