"""`gepard say`: speak a text through a running gateway."""

import base64
import sys
from pathlib import Path
from typing import Any

import click

from cli.api_client import api_client, checked, connection_options
from cli.say_output import STDOUT, progress, sink
from shared.formats import AudioFormat
from shared.settings import Settings

_FORMATS = {audio_format.value: audio_format for audio_format in AudioFormat}
_ENDINGS = {**_FORMATS, "ogg": AudioFormat.OPUS}
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
@connection_options
@click.pass_obj
def say(settings: Settings, /, text: str, output: str, url: str | None, api_key: str, **options: Any) -> None:  # noqa: ANN401
    """Speak TEXT (- reads it from the standard input) into a file."""
    body = _request_body(_read(text), output, options, settings)
    # The file first: what cannot be written is not asked for.
    with (
        sink(output) as target,
        progress("speaking" if output == STDOUT else output) as advance,
        api_client(url, api_key, settings.server) as client,
        client.stream("POST", "audio/speech", json=body) as response,
    ):
        for data in checked(response).iter_bytes():
            target.write(data)
            advance(len(data))


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
