"""Names of voices: the 13 names of the OpenAI API, the operator's own, and an engine's presets."""

from collections.abc import Iterable, Mapping

from shared.contracts import EngineInfo, PresetVoice, Voice

OPENAI_NAMES = (
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer",
    "verse",
)  # fmt: skip

# The OpenAI names on the embedded engine's presets, by the character of the voice they stand for.
BUILT_IN: Mapping[str, Mapping[str, str]] = {
    "hibari": {
        "alloy": "rowan",
        "ash": "birch",
        "ballad": "maple",
        "cedar": "harbor",
        "coral": "heart",
        "echo": "flint",
        "fable": "reed",
        "marin": "clover",
        "nova": "linnet",
        "onyx": "granite",
        "sage": "willow",
        "shimmer": "robin",
        "verse": "walnut",
    },
}


def aliases_of(info: EngineInfo, custom: Mapping[str, str]) -> dict[str, str]:
    """Alias -> preset name on this engine; the operator's aliases win. Only those that lead somewhere."""
    presets = {preset.name for preset in info.presets}
    built_in = BUILT_IN.get(info.model, {})
    merged = {**built_in, **{alias.lower(): target.lower() for alias, target in custom.items()}}
    # An alias may point at another alias: {rachel: nova}.
    resolved = {alias: built_in.get(target, target) for alias, target in merged.items()}
    return {alias: target for alias, target in resolved.items() if target in presets}


def resolve_voice(name: str, info: EngineInfo, custom: Mapping[str, str]) -> Voice | None:
    """The voice of that name on this engine, or None; case does not matter. Never a silent default."""
    wanted = name.strip().lower()
    target = aliases_of(info, custom).get(wanted, wanted)
    if any(preset.name == target for preset in info.presets):
        return PresetVoice(name=target)
    return None


def reserved_names(infos: Iterable[EngineInfo], custom: Mapping[str, str]) -> frozenset[str]:
    """Names that mean a built-in voice on some model, or will when one is served: a user's voice cannot have them."""
    presets = {preset.name for info in infos for preset in info.presets}
    return frozenset({*presets, *OPENAI_NAMES, *(alias.lower() for alias in custom)})
