"""The OpenAPI document against the running service: no 5xx, and no answer that the document does not name."""

import signal

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import booleans
from schemathesis.checks import CHECKS, load_all_checks

from tests.support.gepard import Gepard

load_all_checks()

# Other checks ask for more than clients of this API may rely on: unknown fields are ignored, numbers may come as
# strings, and the loopback guard answers before the method is looked at.
_CHECKS = [
    check
    for check in CHECKS.get_all()
    if check.__name__
    in {
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
        "unsupported_method",
    }
]

_EXAMPLES_PER_OPERATION = 40


_KEY = "gp-0123456789abcdefghijklmnop"


@pytest.fixture(scope="session")
def locked_url(tmp_path_factory):
    """A service that asks for a key."""
    folder = tmp_path_factory.mktemp("locked")
    running = Gepard(folder, "serve", "--port", 0, "--data-dir", folder / "data", GEPARD_AUTH_API_KEY=_KEY)
    try:
        yield running.await_banner()
        running.end(signal.SIGTERM)
    finally:
        running.clean()


@pytest.fixture(scope="session", params=["open", "with its key", "without its key"])
def api(request):
    """The document of a running service, and the headers that a client of it sends."""
    if request.param == "open":
        url, headers = request.getfixturevalue("gepard").await_banner(), {}
    else:
        url = request.getfixturevalue("locked_url")
        headers = {"Authorization": f"Bearer {_KEY}"} if request.param == "with its key" else {}
    return schemathesis.openapi.from_url(f"{url}/docs/openapi.json"), headers


OPERATIONS = [
    ("POST", "/v1/audio/speech"),
    ("POST", "/synthesize"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{model_id}"),
    ("GET", "/v1/audio/models"),
    *(
        (method, f"{family}{rest}")
        for family in ("/v1/voices", "/v1/audio/voices")
        for method, rest in (
            ("GET", ""),
            ("POST", ""),
            ("GET", "/{voice_id}"),
            ("POST", "/{voice_id}"),
            ("DELETE", "/{voice_id}"),
            ("GET", "/{voice_id}/clip"),
            ("GET", "/{voice_id}/preview"),
        )
    ),
    ("GET", "/v1/audio/voice_consents"),
    ("POST", "/v1/audio/voice_consents"),
    ("GET", "/v1/audio/voice_consents/{consent_id}"),
    ("POST", "/v1/audio/voice_consents/{consent_id}"),
    ("DELETE", "/v1/audio/voice_consents/{consent_id}"),
    ("GET", "/metrics"),
    ("GET", "/v1"),
    ("GET", "/health"),
    ("GET", "/ready"),
    ("GET", "/metrics"),
]


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_answer_is_a_documented_one(api, method, path):
    document, headers = api

    @settings(
        max_examples=_EXAMPLES_PER_OPERATION, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(case=document[path][method].as_strategy(), known=booleans())
    def check(case, known):
        if known and isinstance(case.body, dict):
            # Random names are refused first; with these the other fields are looked at too.
            case.body = {**case.body, "model": "tts-1", "voice": "alloy"}
        case.call_and_validate(checks=_CHECKS, headers=headers)

    check()


def test_every_operation_of_the_document_is_tried(api):
    document, _ = api
    tried = {(operation.ok().method.upper(), operation.ok().path) for operation in document.get_all_operations()}
    assert tried == set(OPERATIONS)


def test_the_document_is_openapi_3_1_with_an_operation_id_everywhere(gepard):
    document = httpx.get(f"{gepard.await_banner()}/docs/openapi.json", trust_env=False).json()
    assert document["openapi"].startswith("3.1")
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert all(operation["operationId"] and operation["summary"] for operation in operations)
    for operation in operations:
        for status, response in operation["responses"].items():
            assert response["description"]
            assert {"x-request-id", "openai-processing-ms"} <= set(response["headers"]), (operation, status)
