"""Names of voices on each engine."""

import pytest
from msgspec.structs import replace

from shared.contracts import Preset, PresetVoice
from tests.support.engines import engine_info
from voices.aliases import BUILT_IN, OPENAI_NAMES, aliases_of, resolve_voice
from workers.engines.hibari_voices import PRESETS


def info_of(model: str, *names: str):
    return replace(engine_info(model=model), presets=tuple(Preset(name=name, description="") for name in names))


@pytest.mark.parametrize("model", ["hibari", "gepard"])
def test_each_openai_name_leads_to_a_preset_of_its_own(model):
    info = info_of(model, *(preset.name for preset in PRESETS))
    aliases = aliases_of(info, {})
    assert set(aliases) == set(OPENAI_NAMES) == set(BUILT_IN[model])
    assert len(set(aliases.values())) == len(OPENAI_NAMES)


def test_an_alias_that_leads_nowhere_is_no_voice():
    info = info_of("gepard", "rowan")
    assert aliases_of(info, {"rachel": "nova"}) == {"alloy": "rowan"}
    assert resolve_voice("nova", info, {}) is None


def test_a_presets_own_name_wins_over_a_built_in_alias_and_the_operators_alias_over_both():
    info = info_of("gepard", "alloy", "rowan")
    assert resolve_voice("Alloy ", info, {}) == PresetVoice(name="alloy")
    assert resolve_voice("alloy", info, {"Alloy": "rowan"}) == PresetVoice(name="rowan")
