"""Names of voices: the 13 names of the OpenAI API, the operator's own, and an engine's presets."""

from collections.abc import Iterable, Mapping

from shared.contracts import EngineInfo, PresetVoice, Voice

OPENAI_NAMES = (
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer",
    "verse",
)  # fmt: skip

# By the character of the voice they stand for.
_ON_EMBEDDED_PRESETS: Mapping[str, str] = {
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
}

BUILT_IN: Mapping[str, Mapping[str, str]] = {
    "hibari": _ON_EMBEDDED_PRESETS,
    # Its starter voices are cloned from those presets and bear their names.
    "gepard": _ON_EMBEDDED_PRESETS,
}
"""Model -> OpenAI name -> preset."""


def aliases_of(info: EngineInfo, custom: Mapping[str, str]) -> dict[str, str]:
    """Alias -> preset name on this engine. Only those that lead somewhere.

    The operator's aliases win over everything, a preset's own name over the built-in aliases.
    """
    presets = {preset.name for preset in info.presets}
    built_in = {alias: target for alias, target in BUILT_IN.get(info.model, {}).items() if alias not in presets}
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
