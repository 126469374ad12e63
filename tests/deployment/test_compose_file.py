"""docker-compose.yml: valid for the Compose Specification, and what it says of who may connect."""

import json
import re
import subprocess
from typing import Any

import jsonschema
import pytest

from shared.settings import environment_variables
from tests.support.compose import ROOT, compose

SCHEMA = json.loads((ROOT / "tests/data/deployment/compose-spec.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = compose()["services"]
    return found


def own(services: dict[str, Any]) -> dict[str, Any]:
    """Services that run this project's images."""
    return {name: one for name, one in services.items() if "gepard-gateway" in one["image"]}


@pytest.mark.parametrize(
    "given", [{}, {"GEPARD_BIND": "0.0.0.0", "GEPARD_MODEL": "gepard"}], ids=["nothing set", "set"]
)
def test_it_follows_the_specification(given: dict[str, str]):
    # Compose turns interpolated numbers into numbers.
    document = compose(given)
    document["services"]["worker"]["deploy"]["replicas"] = int(document["services"]["worker"]["deploy"]["replicas"])
    jsonschema.Draft7Validator(SCHEMA).validate(document)


def test_the_schema_refuses_what_is_wrong():
    document = compose()
    document["services"]["proxy"]["prots"] = []
    assert list(jsonschema.Draft7Validator(SCHEMA).iter_errors(document))


def test_every_variable_is_in_the_example_and_every_line_of_it_is_used():
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    used = dict(re.findall(r"(?<!\$)\$\{(\w+):-([^}]*)\}", text))
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    example = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert used == example
    assert not re.search(r"(?<!\$)\$\{\w+\}", text), "a variable without a default would be needed"


def test_only_the_proxy_has_a_port_and_only_on_loopback(services: dict[str, Any]):
    assert {name: one["ports"] for name, one in services.items() if one.get("ports")} == {
        "proxy": ["127.0.0.1:8080:8080"]
    }
    assert not any(one.get("network_mode") == "host" or one.get("privileged") for one in services.values())


def test_only_what_needs_it_can_reach_out(services: dict[str, Any]):
    assert compose()["networks"]["back"] == {"internal": True}
    outside = {name for name, one in services.items() if "front" in one.get("networks", [])}
    assert outside == {"proxy", "download"}


def test_gateways_have_a_key_from_their_first_moment(services: dict[str, Any]):
    for name in ("gateway-1", "gateway-2", "migrate"):
        given = services[name]["environment"]
        assert given["GEPARD_AUTH_API_KEY_FILE"] == "/run/gepard/key/api-key"
        assert "GEPARD_SERVER_ALLOW_REMOTE" not in given


def test_no_secret_is_in_the_environment_or_on_a_command_line(services: dict[str, Any]):
    """Both can be read with `docker inspect`; only the one-shot that makes the secrets may be given some."""
    for name, one in services.items():
        words = json.dumps([one.get("command"), one.get("environment")]).lower()
        if name not in ("secrets", "download"):
            assert not re.search(r"(password|api_key)\": |://[^/\"]*:[^/\"]*@", words), name


def test_services_set_only_settings_there_are(services: dict[str, Any]):
    known = set(environment_variables())
    for name, one in own(services).items():
        given = {key.removesuffix("_FILE") for key in one.get("environment", {}) if key.startswith("GEPARD_")}
        assert given <= known, name


def test_what_stays_up_is_watched_and_may_end_in_peace(services: dict[str, Any]):
    for name, one in services.items():
        if one.get("restart") == "unless-stopped":
            assert "test" in one["healthcheck"], name
    for name, one in own(services).items():
        if one["restart"] == "unless-stopped":
            drain_s = float(one["environment"]["GEPARD_WORKER_DRAIN_S"])
            assert int(one["stop_grace_period"].removesuffix("s")) > drain_s, name
            assert one["read_only"] is True
            assert one["cap_drop"] == ["ALL"]


def test_one_gpu_has_one_worker(services: dict[str, Any]):
    for profile in (1, 2, 4, 8):
        chosen = [one for one in services.values() if f"gpu-{profile}" in one.get("profiles", [])]
        devices = [one["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"] for one in chosen]
        assert devices == [[str(number)] for number in range(profile)]


def test_without_a_profile_there_is_speech(services: dict[str, Any]):
    """The embedded engine, twice, so that one may restart; no GPU, no weights."""
    started = {name for name, one in services.items() if not one.get("profiles")}
    assert {"secrets", "migrate", "valkey", "postgres", "gateway-1", "gateway-2", "worker", "proxy"} == started
    assert services["worker"]["deploy"]["replicas"] == "2"


def test_every_dependency_and_volume_is_there(services: dict[str, Any]):
    document = compose()
    for one in services.values():
        assert set(one.get("depends_on", {})) <= set(services)
        for volume in one.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in document["volumes"], volume


@pytest.mark.parametrize(
    ("name", "value"), [("VALKEY_PASSWORD", "with space"), ("GEPARD_API_KEY", "a'b"), ("POSTGRES_PASSWORD", "a/b@c")]
)
def test_a_secret_that_would_break_a_url_is_refused_unprinted(tmp_path, name: str, value: str):
    done = _make_secrets(tmp_path, **{name: value})
    assert done.returncode == 1
    assert "A-Z a-z 0-9" in done.stderr
    assert value not in done.stderr + done.stdout


def test_secrets_are_taken_from_the_environment_or_made(tmp_path):
    given = {"VALKEY_PASSWORD": "one", "POSTGRES_PASSWORD": "two", "GEPARD_API_KEY": "gp-three-three-three-three"}
    done = _make_secrets(tmp_path, **given)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "broker/redis-url").read_text() == "redis://:one@valkey:6379/0"
    assert (tmp_path / "database/url").read_text() == "postgresql://gepard:two@postgres:5432/gepard"
    assert (tmp_path / "key/api-key").read_text() == given["GEPARD_API_KEY"]
    assert _make_secrets(tmp_path).returncode == 0
    assert (tmp_path / "broker/redis-url").read_text() == "redis://:one@valkey:6379/0"


def _make_secrets(folder: Any, **given: str) -> subprocess.CompletedProcess[str]:
    folders = {f"{name.upper()}_DIR": str(folder / name) for name in ("broker", "database", "key")}
    script = ROOT / "deploy/compose/make-secrets.sh"
    return subprocess.run(
        ["sh", script], env={"PATH": "/usr/bin:/bin", **folders, **given}, capture_output=True, text=True, check=False
    )
