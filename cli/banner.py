"""What `gepard serve` prints when everything is warm."""

from shared.settings import Settings

_BANNER = """
Speech is served at {url}/v1

  curl {url}/v1/audio/speech -H 'Content-Type: application/json' \\
       -d '{{"model": "{model}", "voice": "{voice}", "input": "Hello there!"}}' -o hello.mp3

  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="none")
  client.audio.speech.create(model="{model}", voice="{voice}", input="Hello there!").write_to_file("hello.mp3")

With API keys, send one: -H 'Authorization: Bearer KEY', api_key="KEY".

API page: {url}/docs     Voices: {url}/v1/voices     Stop: Ctrl-C
"""
_OPEN_TO_ALL = """
Without API keys everyone who can reach port {port} of this machine can use it: gepard keys create NAME
"""
_OPENAI_MODEL = "tts-1"


def banner(settings: Settings, url: str) -> str:
    """The address and two ways to use it, ready to paste."""
    model = _OPENAI_MODEL if _OPENAI_MODEL in settings.model_aliases else settings.model
    text = _BANNER.format(url=url, model=model, voice=settings.default_voice)
    if settings.server.allow_remote:
        text += _OPEN_TO_ALL.format(port=url.rpartition(":")[2])
    return text
