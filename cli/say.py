"""`gepard say`: speak a text through a running gateway."""

import base64
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click
import httpx
from rich.console import Console
from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cli.sockets import is_loopback
from shared.formats import AudioFormat
from shared.settings import Settings

_FORMATS = [audio_format.value for audio_format in AudioFormat]
_CONNECT_TIMEOUT_S = 5.0
_STDOUT = "-"


@click.command()
@click.argument("text")
@click.option("-o", "--output", required=True, help="File to write; - is the standard output.")
@click.option("--voice", help="Voice (default: default_voice).")
@click.option("--model", default="tts-1", show_default=True)
@click.option("--format", "audio_format", type=click.Choice(_FORMATS), help="Default: by the file's ending, or mp3.")
@click.option("--sample-rate", type=int, help="In Hz.")
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
    if text == "-":
        text = click.get_text_stream("stdin").read()
    body = _request_body(text, output, options, settings)
    base_url = (url or _own_url(settings)).rstrip("/")
    client = httpx.Client(
        headers={"authorization": f"Bearer {api_key}"},
        timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S),
        trust_env=url is not None,
    )
    try:
        with client, client.stream("POST", f"{base_url}/audio/speech", json=body) as response:
            if not response.is_success:
                response.read()
                raise click.ClickException(_error_message(response))
            with _sink(output) as sink, _progress(output) as progress:
                task = progress.add_task("speaking", total=None)
                for data in response.iter_bytes():
                    sink.write(data)
                    progress.advance(task, len(data))
    except httpx.ConnectError as error:
        raise click.ClickException(f"no gateway answers at {base_url}: start one with `gepard serve`") from error
    except httpx.HTTPError as error:
        raise click.ClickException(f"the reply broke off: {error}") from error


def _request_body(text: str, output: str, options: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The request, with only what was asked for."""
    ending = Path(output).suffix.lstrip(".").lower()
    reference: Path | None = options.pop("reference")
    body = {
        "input": text,
        "voice": options.pop("voice") or settings.default_voice,
        "response_format": options.pop("audio_format") or (ending if ending in _FORMATS else "mp3"),
        "normalize": not options.pop("no_normalize"),
        **{name: value for name, value in options.items() if value is not None},
    }
    if reference is not None:
        body["reference_audio"] = base64.b64encode(reference.read_bytes()).decode()
    return body


def _own_url(settings: Settings) -> str:
    host = settings.server.host
    name = "127.0.0.1" if host == "localhost" or not is_loopback(host) else host
    return f"http://[{name}]:{settings.server.port}/v1" if ":" in name else f"http://{name}:{settings.server.port}/v1"


def _error_message(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the server answered {response.status_code}"


@contextlib.contextmanager
def _sink(output: str) -> Iterator[BinaryIO]:
    """Where the audio goes; a file appears under its name only when it is whole."""
    if output == _STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(output)
    partial = target.with_name(target.name + ".part")
    try:
        with partial.open("wb") as sink:
            yield sink
        partial.replace(target)
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def _progress(output: str) -> Progress:
    """On stderr, so that the standard output stays audio; silent where that is no terminal."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}" if output == _STDOUT else output),
        DownloadColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=False,
        disable=not sys.stderr.isatty(),
    )
