from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.errors import SettingsError
from shared.settings import Settings, environment_variables, load_settings

CONFIG = Path(__file__).parents[2] / "config.yaml"

# Every variable with a text and the value it must give, different from the default.
VARIABLES: dict[str, tuple[str, Any]] = {
    "GEPARD_MODEL": ("tone", "tone"),
    "GEPARD_DEFAULT_VOICE": ("no", "no"),
    "GEPARD_DATA_DIR": ("/data", "/data"),
    "GEPARD_MODEL_ALIASES": ("{tts-1: tone}", {"tts-1": "tone"}),
    "GEPARD_VOICE_ALIASES": ('{"rachel": "alto"}', {"rachel": "alto"}),
    "GEPARD_LEXICON": ("{Gepard: gay part}", {"Gepard": "gay part"}),
    "GEPARD_PAUSES": ("true", True),
    "GEPARD_SERVER_HOST": ("::", "::"),
    "GEPARD_SERVER_PORT": ("9000", 9000),
    "GEPARD_SERVER_ALLOW_REMOTE": ("true", True),
    "GEPARD_SERVER_DRAIN_DELAY_S": ("5", 5.0),
    "GEPARD_REDIS_URL": ("redis://redis:6379/0", "redis://redis:6379/0"),
    "GEPARD_REDIS_MAX_CONNECTIONS": ("99", 99),
    "GEPARD_REDIS_WARM_CONNECTIONS": ("3", 3),
    "GEPARD_DATABASE_URL": ("postgresql://db/gepard", "postgresql://db/gepard"),
    "GEPARD_AUTH_API_KEY": ("0123456789abcdefghij", "0123456789abcdefghij"),
    "GEPARD_AUTH_OPEN_LISTS": ("true", True),
    "GEPARD_GENERATION_TEMPERATURE": ("0.5", 0.5),
    "GEPARD_GENERATION_TOP_K": ("50", 50),
    "GEPARD_GENERATION_REPETITION_PENALTY": ("1.1", 1.1),
    "GEPARD_GENERATION_REPETITION_WINDOW": ("20", 20),
    "GEPARD_GENERATION_CFG_SCALE": ("1.5", 1.5),
    "GEPARD_GENERATION_CFG_FRAMES": ("40", 40),
    "GEPARD_GENERATION_CFG_UNCOND_MODE": ("audio_only", "audio_only"),
    "GEPARD_GENERATION_STOP_THRESHOLD": ("0.4", 0.4),
    "GEPARD_GENERATION_MAX_FRAMES": ("500", 500),
    "GEPARD_GENERATION_FORCE_STOP_FRAMES": ("400", 400),
    "GEPARD_GENERATION_MAX_REF_SECONDS": ("null", None),
    "GEPARD_BIT_RATES_MP3": ("128000", 128000),
    "GEPARD_BIT_RATES_OPUS": ("24000", 24000),
    "GEPARD_BIT_RATES_WEBM": ("64000", 64000),
    "GEPARD_BIT_RATES_AAC": ("96000", 96000),
    "GEPARD_LIMITS_MAX_INPUT_CHARS": ("100", 100),
    "GEPARD_LIMITS_MAX_BODY_BYTES": ("1000", 1000),
    "GEPARD_LIMITS_MAX_PENDING": ("5", 5),
    "GEPARD_LIMITS_STREAM_MAX_BYTES": ("2000", 2000),
    "GEPARD_LIMITS_REPLY_TTL_S": ("9", 9),
    "GEPARD_LIMITS_FIRST_EVENT_TIMEOUT_S": ("2.5", 2.5),
    "GEPARD_LIMITS_CLIENT_STALL_TIMEOUT_S": ("3", 3.0),
    "GEPARD_LIMITS_REQUEST_TIMEOUT_S": ("4", 4.0),
    "GEPARD_LIMITS_MAX_ATTEMPTS": ("2", 2),
    "GEPARD_LIMITS_STREAM_WAIT_S": ("0", 0.0),
    "GEPARD_LIMITS_RESUME_WAIT_S": ("0", 0.0),
    "GEPARD_LIMITS_ENGINE_STALL_TIMEOUT_S": ("5", 5.0),
    "GEPARD_LIMITS_STREAM_LEASE_S": ("5", 5.0),
    "GEPARD_LIMITS_MAX_LEXICON_ENTRIES": ("20", 20),
    "GEPARD_LIMITS_MAX_PAUSE_S": ("2", 2.0),
    "GEPARD_LIMITS_MAX_TOTAL_PAUSE_S": ("20.5", 20.5),
    "GEPARD_CLIPS_MAX_UPLOAD_BYTES": ("5000", 5000),
    "GEPARD_CLIPS_MAX_DECODED_S": ("60", 60.0),
    "GEPARD_CLIPS_DECODE_TIMEOUT_S": ("7.5", 7.5),
    "GEPARD_CLIPS_DECODE_MEMORY_BYTES": ("1073741824", 1073741824),
    "GEPARD_CLIPS_MAX_DECODERS": ("4", 4),
    "GEPARD_CLIPS_MAX_WAITING": ("16", 16),
    "GEPARD_CLIPS_S3_BUCKET": ("voices", "voices"),
    "GEPARD_CLIPS_S3_PREFIX": ("clips/", "clips/"),
    "GEPARD_CLIPS_S3_ENDPOINT": ("http://store:9000", "http://store:9000"),
    "GEPARD_CLIPS_S3_REGION": ("eu-central-1", "eu-central-1"),
    "GEPARD_VOICES_MAX_PER_KEY": ("20", 20),
    "GEPARD_VOICES_MAX_CONSENTS_PER_KEY": ("30", 30),
    "GEPARD_VOICES_REQUIRE_CONSENT": ("true", True),
    "GEPARD_VOICES_PROFILE_TIMEOUT_S": ("5", 5.0),
    "GEPARD_WORKER_ENGINE": ("gepard", "gepard"),
    "GEPARD_WORKER_CAPACITY": ("6", 6),
    "GEPARD_WORKER_THREADS": ("2", 2),
    "GEPARD_WORKER_POLL_DELAY_S": ("0.2", 0.2),
    "GEPARD_WORKER_DRAIN_S": ("0", 0.0),
    "GEPARD_GEPARD_CHECKPOINT": ("/models/gepard", "/models/gepard"),
    "GEPARD_GEPARD_CODEC": ("/models/codec.nemo", "/models/codec.nemo"),
    "GEPARD_GEPARD_STARTER_CLIPS": ("/clips", "/clips"),
    "GEPARD_GEPARD_DEVICE": ("cuda:1", "cuda:1"),
    "GEPARD_GEPARD_DTYPE": ("float32", "float32"),
    "GEPARD_GEPARD_ROPE_FREQ_DTYPE": ("fp32", "fp32"),
    "GEPARD_GEPARD_ROWS": ("8", 8),
    "GEPARD_GEPARD_BACKEND": ("vllm", "vllm"),
    "GEPARD_GEPARD_WORKERS": ("4", 4),
    "GEPARD_GEPARD_STEP_TIMEOUT_S": ("20", 20.0),
    "GEPARD_LOG_LEVEL": ("debug", "debug"),
    "GEPARD_LOG_FORMAT": ("json", "json"),
}


def value_at(settings: Settings, path: tuple[str, ...]) -> Any:
    value: Any = settings
    for name in path:
        value = getattr(value, name)
    return value


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def test_the_shipped_configuration_says_what_is_built_in():
    assert load_settings(CONFIG, {}) == Settings()


def test_the_shipped_configuration_mentions_every_key():
    values = yaml.safe_load(CONFIG.read_text())
    mappings = {"model_aliases", "voice_aliases", "lexicon"}
    written = {(key,) for key, value in values.items() if not isinstance(value, dict) or key in mappings}
    written |= {(key, inner) for key, value in values.items() if (key,) not in written for inner in value}
    assert written == set(environment_variables().values())


def test_every_environment_variable_is_in_the_table():
    assert set(VARIABLES) == set(environment_variables())


@pytest.mark.parametrize("in_file", ["", CONFIG.read_text()], ids=["without a file", "over the file"])
@pytest.mark.parametrize("variable", VARIABLES)
def test_an_environment_variable_sets_its_value_and_no_other(variable: str, in_file: str, config: Path):
    config.write_text(in_file)
    text, expected = VARIABLES[variable]
    settings = load_settings(config, {variable: text})
    for other, path in environment_variables().items():
        assert value_at(settings, path) == (expected if other == variable else value_at(Settings(), path))
    assert settings != Settings()


def test_a_file_sets_single_values_and_leaves_the_others(config: Path):
    config.write_text("server: {port: 9000}\nlimits:\n  max_pending: 3\n")
    settings = load_settings(config, {})
    assert (settings.server.port, settings.server.host) == (9000, "localhost")
    assert (settings.limits.max_pending, settings.limits.max_attempts) == (3, 3)


def test_the_file_may_be_named_by_the_environment(config: Path):
    config.write_text("model: tone")
    assert load_settings(None, {"GEPARD_CONFIG": str(config)}).model == "tone"


def test_the_file_beside_the_user_is_read(config: Path, monkeypatch: pytest.MonkeyPatch):
    config.write_text("model: tone")
    monkeypatch.chdir(config.parent)
    assert load_settings(None, {}).model == "tone"


def test_without_a_file_the_defaults_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert load_settings(None, {}) == Settings()


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}"], ids=["empty", "comment", "braces"])
def test_an_empty_file_is_the_defaults(text: str, config: Path):
    config.write_text(text)
    assert load_settings(config, {}) == Settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("prot: 1", "unknown key prot; did you mean", id="top"),
        pytest.param("server: {prot: 1}", "unknown key server.prot; did you mean port?", id="in a section"),
        pytest.param("modell: x", "unknown key modell; did you mean model?", id="nearest"),
        pytest.param("1: x", "unknown key 1", id="not a text"),
        pytest.param("server: {port: many}", "server.port: expected `int`, got `str`", id="type"),
        pytest.param("server: {port: 70000}", "server.port: expected `int` <= 65535", id="range"),
        pytest.param("worker: {engine: other}", "worker.engine: invalid enum value 'other'", id="choice"),
        pytest.param("bit_rates: {mp3: 65000}", "mp3 at 24000 Hz has no bit rate 65000; it has 8000", id="bit rate"),
        pytest.param("model_aliases: [a]", "model_aliases: expected `object`, got `array`", id="mapping"),
        pytest.param("default_voice: no", "default_voice: expected `str`, got `bool`", id="YAML's no"),
        pytest.param("server:", "server is a section with keys of its own (host, port", id="section without keys"),
        pytest.param("server: 8000", "(host, port, allow_remote, drain_delay_s), got 8000", id="section as a number"),
        pytest.param("limits: [1]", "limits is a section", id="section as a list"),
        pytest.param("- a", "expected keys and values at the top, got list", id="list"),
        pytest.param("just words", "expected keys and values at the top, got str", id="words"),
        pytest.param("a: [", "cannot read the configuration", id="not YAML"),
        pytest.param("a: \x00", "cannot read the configuration", id="control character"),
    ],
)
def test_a_wrong_file_is_refused_by_name(text: str, message: str, config: Path):
    config.write_text(text)
    with pytest.raises(SettingsError) as refused:
        load_settings(config, {"GEPARD_SERVER_HOST": "localhost"})
    assert message in str(refused.value)
    assert str(config) in str(refused.value)


@pytest.mark.parametrize("name", ["missing.yaml", "."], ids=["missing", "folder"])
def test_a_file_that_cannot_be_read_is_refused_by_name(name: str, tmp_path: Path):
    with pytest.raises(SettingsError, match="cannot read the configuration"):
        load_settings(tmp_path / name, {})


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("GEPARD_SERVER_PROT", "1", "unknown environment variable GEPARD_SERVER_PROT; did you mean GEPARD_SERVER_PORT"),
        ("GEPARD_PORT", "9000", "unknown environment variable GEPARD_PORT; did you mean"),
        ("GEPARD_SERVER_PORT", "many", "GEPARD_SERVER_PORT: expected `int`, got `str`"),
        ("GEPARD_SERVER_PORT", "-1", "GEPARD_SERVER_PORT: expected `int` >= 0"),
        ("GEPARD_SERVER_PORT", "", "GEPARD_SERVER_PORT: expected `int`, got `null`"),
        ("GEPARD_LOG_LEVEL", "loud", "GEPARD_LOG_LEVEL: invalid enum value 'loud'"),
        ("GEPARD_MODEL_ALIASES", "{", "GEPARD_MODEL_ALIASES is not a YAML value"),
        ("GEPARD_MODEL_ALIASES", "a", "GEPARD_MODEL_ALIASES: expected `object`, got `str`"),
    ],
)
def test_a_wrong_variable_is_refused_by_name(variable: str, value: str, message: str, config: Path):
    config.write_text("")
    with pytest.raises(SettingsError) as refused:
        load_settings(config, {variable: value})
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GEPARD_SERVICE_HOST", "10.0.0.1"),
        ("GEPARD_SERVICE_PORT", "8000"),
        ("GEPARD_SERVICE_PORT_HTTP", "8000"),
        ("GEPARD_PORT", "tcp://10.0.0.1:8000"),
        ("GEPARD_PORT_8000_TCP", "tcp://10.0.0.1:8000"),
        ("GEPARD_PORT_8000_TCP_ADDR", "10.0.0.1"),
        ("GEPARD_VALKEY_SERVICE_HOST", "10.0.0.1"),
        ("OTHER_VARIABLE", "x"),
    ],
)
def test_variables_that_a_cluster_sets_for_a_service_are_no_settings(variable: str, value: str, config: Path):
    config.write_text("")
    assert load_settings(config, {variable: value}) == Settings()


def test_the_data_folder_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Valkey changes into it: a relative path would be another one there."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert Settings(data_dir="data").data_path() == tmp_path / "data"
    assert Settings(data_dir="~/speech").data_path() == tmp_path / "home" / "speech"
    assert Settings().data_path().is_absolute()


# --- Values in files, as orchestrators hand out secrets ------------------------------------------------------


def test_a_variable_with_file_at_its_end_names_a_file_with_the_value(tmp_path):
    (tmp_path / "url").write_text("redis://:pass word@h\n")
    (tmp_path / "port").write_text("9000\n")
    environ = {"GEPARD_REDIS_URL_FILE": str(tmp_path / "url"), "GEPARD_SERVER_PORT_FILE": str(tmp_path / "port")}
    settings = load_settings(environ=environ)
    assert settings.redis.url == "redis://:pass word@h"
    assert settings.server.port == 9000


def test_a_value_and_a_file_for_it_are_too_much(tmp_path):
    environ = {"GEPARD_REDIS_URL_FILE": str(tmp_path), "GEPARD_REDIS_URL": "redis://h"}
    with pytest.raises(SettingsError, match="GEPARD_REDIS_URL and GEPARD_REDIS_URL_FILE are both set"):
        load_settings(environ=environ)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"GEPARD_REDIS_URL_FILE: cannot read .*nowhere: No such file"):
        load_settings(environ={"GEPARD_REDIS_URL_FILE": str(tmp_path / "nowhere")})


def test_a_bad_value_in_a_file_is_named_by_its_variable(tmp_path):
    (tmp_path / "port").write_text("secret")
    with pytest.raises(SettingsError, match="GEPARD_SERVER_PORT_FILE: expected `int`"):
        load_settings(environ={"GEPARD_SERVER_PORT_FILE": str(tmp_path / "port")})
