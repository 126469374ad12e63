"""Which lexicon and which pauses a job is made with."""

import pytest
from msgspec.structs import replace

from gateway.prepare import JobMaker
from gateway.schemas import SpeechRequest
from gateway.text import Lexicon
from shared.contracts import PresetVoice
from shared.errors import SettingsError
from shared.settings import Settings
from tests.support.engines import engine_info

SETTINGS = Settings(model="tone", lexicon={"Gepard": "settings", "cat": "dog"})
REQUEST = SpeechRequest(model="tone", input="Gepard cat", voice="low")


class OneModel:
    def models(self):
        return {"tone": engine_info()}


class OneSpeaker:
    async def of(self, request, info, viewer):
        return PresetVoice(name="low")


async def spoken(request, settings=SETTINGS, **options):
    return (await JobMaker(settings, OneModel(), OneSpeaker()).make(request, None, **options)).job.segments[0].text


async def test_the_request_wins_over_the_key_and_the_key_over_the_settings():
    key = (Lexicon({"Gepard": "key"}),)
    assert await spoken(REQUEST) == "settings dog"
    assert await spoken(REQUEST, lexicons=key) == "key dog"
    assert await spoken(replace(REQUEST, lexicon={"Gepard": "request"}), lexicons=key) == "request dog"


async def test_words_are_replaced_without_normalisation_too():
    assert await spoken(replace(REQUEST, input="Gepard 5", normalize=False)) == "settings 5"


@pytest.mark.parametrize(("default", "wish", "silent"), [(True, None, True), (True, False, False), (False, True, True)])
async def test_the_request_decides_on_pauses_and_else_the_settings(default, wish, silent):
    request = replace(REQUEST, input="One [pause 1s] two", pauses=wish)
    assert await spoken(request, replace(SETTINGS, pauses=default)) == ("One" if silent else "One pause one second two")


def test_a_lexicon_in_the_settings_that_cannot_be_used_is_refused_at_the_start():
    with pytest.raises(SettingsError, match="lexicon: '!' has no letter or digit"):
        JobMaker(Settings(lexicon={"!": "bang"}), OneModel(), OneSpeaker())
