"""`gepard say`: speak a text through a running gateway."""

import base64
import sys
from pathlib import Path
from typing import Any

import click
import httpx

from cli.say_output import STDOUT, progress, sink
from cli.sockets import http_url
from shared.formats import AudioFormat
from shared.settings import ServerSettings, Settings

_FORMATS = {audio_format.value: audio_format for audio_format in AudioFormat}
_ENDINGS = {**_FORMATS, "ogg": AudioFormat.OPUS}
_CONNECT_TIMEOUT_S = 5.0
_STDIN = "-"


@click.command()
@click.argument("text")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True),
    help="File to write; - is the standard output.",
)
@click.option("--voice", help="Voice (default: default_voice).")
@click.option("--model", default="tts-1", show_default=True)
@click.option("--format", "audio_format", type=click.Choice(list(_FORMATS)), help="Default: by the file's ending.")
@click.option("--sample-rate", type=int, help="In Hz.")
@click.option("--bit-rate", type=int, help="In bits per second, for mp3, opus, webm and aac.")
@click.option("--speed", type=float, help="0.25 to 4; the pitch is kept.")
@click.option("--seed", type=int, help="The same seed and text give the same audio.")
@click.option("--language", help="Tag of the text's language, e.g. en.")
@click.option("--no-normalize", is_flag=True, help="Leave numbers, dates and the like as they are written.")
@click.option("--temperature", type=float)
@click.option("--cfg-scale", type=float, help="Above 1: guidance, where the model can do it.")
@click.option("--reference", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Clip to speak like.")
@click.option("--url", help="Base URL of the API (default: the gateway of this configuration).")
@click.option("--api-key", envvar="OPENAI_API_KEY", default="none", help="Key to send ($OPENAI_API_KEY).")
@click.pass_obj
def say(settings: Settings, /, text: str, output: str, url: str | None, api_key: str, **options: Any) -> None:  # noqa: ANN401
    """Speak TEXT (- reads it from the standard input) into a file."""
    body = _request_body(_read(text), output, options, settings)
    speech_url = _speech_url(url, settings.server)
    client = httpx.Client(
        headers={b"authorization": b"Bearer " + api_key.encode()},
        timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S),
        trust_env=url is not None,
    )
    # The file first: what cannot be written is not asked for.
    with sink(output) as target, progress("speaking" if output == STDOUT else output) as advance, client:
        try:
            with client.stream("POST", speech_url, json=body) as response:
                if not response.is_success:
                    response.read()
                    raise click.ClickException(_error_message(response))
                for data in response.iter_bytes():
                    target.write(data)
                    advance(len(data))
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise click.ClickException(f"no gateway answers at {speech_url}: start one with `gepard serve`") from error
        except httpx.HTTPError as error:
            raise click.ClickException(f"the reply broke off: {error}") from error


def _read(text: str) -> str:
    if text != _STDIN:
        return text
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.ClickException("the text on the standard input is not UTF-8") from error


def _request_body(text: str, output: str, options: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The request, with only what was asked for."""
    reference: Path | None = options.pop("reference")
    body = {
        "input": text,
        "voice": options.pop("voice") or settings.default_voice,
        "response_format": options.pop("audio_format") or _format_of(output),
        "normalize": not options.pop("no_normalize"),
        **{name: value for name, value in options.items() if value is not None},
    }
    if reference is not None:
        try:
            body["reference_audio"] = base64.b64encode(reference.read_bytes()).decode()
        except OSError as error:
            raise click.ClickException(f"cannot read {reference}: {error.strerror}") from error
    return body


def _format_of(output: str) -> str:
    """The format a file's ending stands for; mp3 where there is none."""
    ending = Path(output).suffix.removeprefix(".").lower()
    if ending and ending not in _ENDINGS:
        raise click.ClickException(f"no format ends in .{ending}: name one (--format {'|'.join(_FORMATS)})")
    return _ENDINGS[ending].value if ending else AudioFormat.MP3.value


def _speech_url(url: str | None, server: ServerSettings) -> httpx.URL:
    """Where to send the request: `url` with or without /v1, or the gateway of this configuration."""
    if url is None and server.port == 0:
        raise click.ClickException("server.port is 0: name the gateway (--url)")
    try:
        base = httpx.URL(url or http_url(server.host, server.port))
    except httpx.InvalidURL as error:
        raise click.ClickException(f"--url {url}: {error}") from error
    if base.scheme not in ("http", "https") or not base.host:
        raise click.ClickException(f"--url {url}: expected something like http://127.0.0.1:8000/v1")
    path = base.path.rstrip("/") or "/v1"
    return base.copy_with(path=f"{path}/audio/speech")


def _error_message(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the server answered {response.status_code}"
