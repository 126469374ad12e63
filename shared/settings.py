"""The configuration: documented defaults, overridden by config.yaml, overridden by environment variables.

Settings are values: the composition root loads them once and passes them down; nothing reads them at import.
Every value has an environment variable named after its path: `server.port` is GEPARD_SERVER_PORT. With _FILE at its
end it names a file that holds the value, as orchestrators hand out secrets: GEPARD_REDIS_URL_FILE.
"""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import platformdirs
import yaml
from msgspec import Meta

from shared.contracts import Sampling
from shared.errors import SettingsError
from shared.formats import FORMATS, AudioFormat

ENV_PREFIX = "GEPARD_"
CONFIG_VARIABLE = "GEPARD_CONFIG"
DEFAULT_MODEL_ALIAS = "default"

_FILE_SUFFIX = "_FILE"

# Kubernetes describes a service named gepard to every pod beside it, in variables named after it.
_SERVICE_LINK = re.compile(
    r"\w+_SERVICE_(HOST|PORT(_\w+)?)="
    r"|\w+_PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)="
    r"|\w+_PORT(_\d+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://"
)

Port = Annotated[int, Meta(ge=0, le=65535)]
Positive = Annotated[int, Meta(gt=0)]
Seconds = Annotated[float, Meta(gt=0)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ServerSettings(_Section, frozen=True, kw_only=True):
    """Where the gateway listens. `localhost` means both loopback addresses."""

    host: str = "localhost"
    port: Port = 8000
    allow_remote: bool = False
    drain_delay_s: Annotated[float, Meta(ge=0, le=300)] = 0.0


class RedisSettings(_Section, frozen=True, kw_only=True):
    """`url` empty: `gepard serve` starts its own Valkey; the other commands need a URL."""

    url: str = ""
    max_connections: Positive = 1024
    warm_connections: Positive = 16


class DatabaseSettings(_Section, frozen=True, kw_only=True):
    """`url` empty: an SQLite file in the data folder."""

    url: str = ""


class AuthSettings(_Section, frozen=True, kw_only=True):
    """Access by API key; without any key, this machine only."""

    api_key: str = ""
    open_lists: bool = False


class GenerationSettings(_Section, Sampling, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Defaults of the knobs a request may also set; null leaves a knob to the model."""

    max_ref_seconds: Annotated[float, Meta(ge=0)] | None = 15.0


class BitRateSettings(_Section, frozen=True, kw_only=True):
    """Defaults in bits per second; null: enough for speech without audible loss at the reply's sample rate.

    The value must exist at the format's default sample rate; a reply at another rate that lacks it gets the
    next lower one.
    """

    mp3: int | None = None
    opus: int | None = None
    webm: int | None = None
    aac: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value, spec = self.of(AudioFormat(name)), FORMATS[AudioFormat(name)]
            bit_rates = spec.bit_rates[spec.default_rate_hz]
            if value is not None and value not in bit_rates.allowed:
                raise ValueError(f"{name} at {spec.default_rate_hz} Hz has no bit rate {value}; it has {bit_rates}")

    def of(self, audio_format: AudioFormat) -> int | None:
        """The default of a format; None where none is set."""
        value: int | None = getattr(self, audio_format.value, None)
        return value


class LimitsSettings(_Section, frozen=True, kw_only=True):
    """Bounds. Everything that can grow has one."""

    max_input_chars: Positive = 4096
    max_body_bytes: Positive = 4 * 1024 * 1024
    max_pending: Positive = 256
    stream_max_bytes: Positive = 32 * 1024 * 1024
    reply_ttl_s: Annotated[int, Meta(ge=5)] = 60
    first_event_timeout_s: Seconds = 30.0
    client_stall_timeout_s: Seconds = 300.0
    request_timeout_s: Seconds = 1800.0
    max_attempts: Positive = 3
    resume_wait_s: Annotated[float, Meta(ge=0)] = 10.0
    engine_stall_timeout_s: Seconds = 60.0
    max_lexicon_entries: Positive = 1000
    max_pause_s: Seconds = 10.0
    max_total_pause_s: Seconds = 60.0
    stream_wait_s: Annotated[float, Meta(ge=0, le=60)] = 10.0
    stream_lease_s: Annotated[float, Meta(ge=1)] = 15.0


class ClipsSettings(_Section, frozen=True, kw_only=True):
    """Reference clips: what may be uploaded, how it is decoded, where it is kept.

    `s3_bucket` empty: the data folder. Credentials of the store come from its own variables (AWS_*).
    """

    max_upload_bytes: Positive = 10 * 1024 * 1024
    max_decoded_s: Seconds = 600.0
    decode_timeout_s: Seconds = 30.0
    decode_memory_bytes: Annotated[int, Meta(ge=320 * 1024 * 1024)] = 640 * 1024 * 1024
    max_decoders: Positive = 2
    max_waiting: Positive = 32
    s3_bucket: str = ""
    s3_prefix: str = ""
    s3_endpoint: str = ""
    s3_region: str = ""


class VoicesSettings(_Section, frozen=True, kw_only=True):
    """The registry of voices. `require_consent`: a new voice names a stored consent, not just any text."""

    max_per_key: Positive = 100
    max_consents_per_key: Positive = 100
    require_consent: bool = False
    profile_timeout_s: Seconds = 30.0


class WorkerSettings(_Section, frozen=True, kw_only=True):
    """One worker process. `capacity` and `threads` null: what the engine advises."""

    engine: Literal["hibari", "gepard"] = "hibari"
    capacity: Positive | None = None
    threads: Positive | None = None
    poll_delay_s: Seconds = 1.0
    drain_s: Annotated[float, Meta(ge=0)] = 30.0


class GepardSettings(_Section, frozen=True, kw_only=True):
    """The engine `gepard`. `checkpoint` and `codec` empty: where `gepard download` puts them; null: by the device."""

    checkpoint: str = ""
    codec: str = ""
    starter_clips: str = ""
    backend: Literal["torch", "vllm"] = "torch"
    device: str = "auto"
    dtype: Literal["bfloat16", "float32"] | None = None
    rope_freq_dtype: Literal["bf16", "fp32"] | None = None
    rows: Annotated[int, Meta(gt=0, le=1024)] | None = None
    workers: Annotated[int, Meta(gt=0, le=64)] | None = None
    step_timeout_s: Seconds | None = None


class LogSettings(_Section, frozen=True, kw_only=True):
    """`format` auto: colours on a terminal, JSON lines elsewhere."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"


def _openai_model_aliases() -> dict[str, str]:
    return dict.fromkeys(("tts-1", "tts-1-hd", "gpt-4o-mini-tts"), DEFAULT_MODEL_ALIAS)


class Settings(_Section, frozen=True, kw_only=True):
    """Everything an operator can set."""

    model: str = "hibari"
    default_voice: str = "alloy"
    data_dir: str = ""
    model_aliases: dict[str, str] = msgspec.field(default_factory=_openai_model_aliases)
    voice_aliases: dict[str, str] = msgspec.field(default_factory=dict)
    lexicon: dict[str, str] = msgspec.field(default_factory=dict)
    pauses: bool = False
    server: ServerSettings = ServerSettings()
    redis: RedisSettings = RedisSettings()
    database: DatabaseSettings = DatabaseSettings()
    auth: AuthSettings = AuthSettings()
    generation: GenerationSettings = GenerationSettings()
    bit_rates: BitRateSettings = BitRateSettings()
    limits: LimitsSettings = LimitsSettings()
    clips: ClipsSettings = ClipsSettings()
    voices: VoicesSettings = VoicesSettings()
    worker: WorkerSettings = WorkerSettings()
    gepard: GepardSettings = GepardSettings()
    log: LogSettings = LogSettings()

    def data_path(self) -> Path:
        """The data folder, absolute: `data_dir`, or the user's own data directory."""
        if not self.data_dir:
            return Path(platformdirs.user_data_dir("gepard"))
        return Path(self.data_dir).expanduser().absolute()

    def gepard_checkpoint_path(self) -> Path:
        """The folder of the Gepard checkpoint."""
        return _own_path(self.gepard.checkpoint) or self.data_path() / "models" / "gepard"

    def gepard_codec_path(self) -> Path:
        """The `.nemo` archive of the codec, or a folder with nothing but that one."""
        return _own_path(self.gepard.codec) or self.data_path() / "models" / "nanocodec"

    def gepard_starter_clips_path(self) -> Path | None:
        """The operator's folder of starter clips; None: the embedded presets."""
        return _own_path(self.gepard.starter_clips)


def _own_path(path: str) -> Path | None:
    return Path(path).expanduser().absolute() if path else None


def load_settings(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Defaults, then the file, then the environment.

    The file is `path`, or $GEPARD_CONFIG, or ./config.yaml where that exists. Raises SettingsError for a
    file that cannot be read, an unknown key (naming the nearest valid one) and a value out of its range.
    """
    path = _find_file(path, environ)
    values = {} if path is None else _read_file(path)
    variables = _apply_environment(values, environ)
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(_explain(str(error), path, variables)) from error


def _find_file(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    if path is not None:
        return path
    if environ.get(CONFIG_VARIABLE):
        return Path(environ[CONFIG_VARIABLE])
    default = Path("config.yaml")
    return default if default.exists() else None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"cannot read the configuration {path}: {error}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: expected keys and values at the top, got {type(values).__name__}")
    _refuse_unknown(values, Settings, "", str(path))
    return values


def _explain(message: str, path: Path | None, variables: Mapping[str, str]) -> str:
    """msgspec's message ("Expected `int`, got `str` - at `$.server.port`") with the source of the value."""
    fault, _, place = message.partition(" - at `$.")
    key = place.rstrip("`")
    where = variables.get(key) or (f"{path}: {key}" if path else key)
    return f"{where}: {fault[:1].lower()}{fault[1:]}"


def _sections(struct: type[msgspec.Struct]) -> dict[str, type[_Section] | None]:
    """Field names of a section; the type where the field is a section itself."""
    return {
        field.name: field.type if isinstance(field.type, type) and issubclass(field.type, _Section) else None
        for field in msgspec.structs.fields(struct)
    }


def _refuse_unknown(values: dict[Any, Any], struct: type[_Section], prefix: str, where: str) -> None:
    known = _sections(struct)
    for key, value in values.items():
        if key not in known:
            raise SettingsError(f"{where}: unknown key {prefix}{key!s}{_nearest(f'{key!s}', known)}")
        section = known[key]
        if section is None:
            continue
        if not isinstance(value, dict):
            got = "nothing" if value is None else repr(value)
            names = ", ".join(_sections(section))
            raise SettingsError(f"{where}: {prefix}{key} is a section with keys of its own ({names}), got {got}")
        _refuse_unknown(value, section, f"{prefix}{key}.", where)


def _nearest(name: str, known: Mapping[str, object]) -> str:
    matches = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"; did you mean {matches[0]}?" if matches else ""


def environment_variables() -> dict[str, tuple[str, ...]]:
    """Every variable name with the path of the value it sets."""
    return {ENV_PREFIX + "_".join(path).upper(): path for path in _paths(Settings)}


def _paths(struct: type[_Section], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, section in _sections(struct).items():
        if section is None:
            yield (*prefix, name)
        else:
            yield from _paths(section, (*prefix, name))


def _apply_environment(values: dict[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Set what the environment sets; returns dotted key -> variable. Raises SettingsError for an unknown one."""
    known = environment_variables()
    applied: dict[str, str] = {}
    for variable, raw in environ.items():
        if not variable.startswith(ENV_PREFIX) or variable == CONFIG_VARIABLE:
            continue
        value, path = raw, known.get(variable)
        if path is None and variable.endswith(_FILE_SUFFIX):
            path = known.get(variable.removesuffix(_FILE_SUFFIX))
            if path is not None:
                value = _secret(variable, raw, environ)
        if path is None:
            if _SERVICE_LINK.match(f"{variable}={raw}"):
                continue
            raise SettingsError(f"unknown environment variable {variable}{_nearest(variable, known)}")
        target = values
        for section in path[:-1]:
            target = target.setdefault(section, {})
        target[path[-1]] = _parse(variable, value, path)
        applied[".".join(path)] = variable
    return applied


def _secret(variable: str, path: str, environ: Mapping[str, str]) -> str:
    """The value in a file, without the line's end. Raises SettingsError, never with what is in it."""
    plain = variable.removesuffix(_FILE_SUFFIX)
    if plain in environ:
        raise SettingsError(f"{plain} and {variable} are both set: keep one")
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(f"{variable}: cannot read {path}: {reason}") from error


def _parse(variable: str, raw: str, path: tuple[str, ...]) -> Any:  # noqa: ANN401  # msgspec checks it later
    """A variable's value: its text where the setting is a text, else YAML (numbers, true, null, {a: b})."""
    value: Any = Settings()
    for name in path:
        value = getattr(value, name)
    if isinstance(value, str):
        return raw
    try:
        return yaml.safe_load(raw)
    except yaml.YAMLError as error:
        raise SettingsError(f"{variable} is not a YAML value: {error}") from error
