"""Starter voices: Gepard has no voice of its own, so it clones the embedded engine's presets.

A starter voice is a clip in a folder, its name that of the file. Without a folder of the operator's, the clips
are rendered once by the embedded engine. Their profiles are kept on disk: a clip takes a CPU some seconds.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shared.clip import Clip
from shared.contracts import Preset, PresetVoice, Sampling, Segment
from shared.errors import EngineError, SettingsError
from shared.telemetry import get_logger
from workers.audio.clip_file import read_clip, write_clip
from workers.engines.base import Engine, SpeakerProfile, SynthesisRequest
from workers.engines.gepard_profiles import ProfileMaker
from workers.gepard.config import MAX_REFERENCE_S

STARTER_TEXT = (
    "The sun had barely risen when we walked down to the harbor. "
    "What a beautiful morning; shall we take the small boat, or the larger one?"
)
"""Six to nine seconds: a statement, a question, most English sounds."""

_SEED = 1
_ENDINGS = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MAX_CLIPS = 256

log = get_logger()


@dataclass(frozen=True, slots=True)
class Starter:
    """A voice by its clip file."""

    preset: Preset
    path: Path


async def rendered_starters(engine: Engine, parent: Path) -> Path:
    """The folder of the clips of `engine`'s presets, made in `parent`; `engine` is started if any is missing.

    Raises SettingsError when they cannot be written.
    """
    folder = parent / f"{engine.info.model}-{engine.info.revision}"
    try:
        missing = await asyncio.to_thread(_missing_clips, folder, engine.info.presets)
        if missing:
            await engine.start()
            try:
                for name, path in missing.items():
                    await asyncio.to_thread(write_clip, path, await _spoken_clip(engine, name))
            finally:
                await engine.stop()
    except OSError as error:
        raise SettingsError(f"starter clips: cannot write to {folder}: {error.strerror}") from error
    return folder


def _missing_clips(folder: Path, presets: Iterable[Preset]) -> dict[str, Path]:
    """Where the clips that are not there yet belong, by preset; makes the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {preset.name: folder / f"{preset.name}.wav" for preset in presets}
    return {name: path for name, path in paths.items() if not path.exists()}


async def _spoken_clip(engine: Engine, preset: str) -> Clip:
    request = SynthesisRequest(
        segment=Segment(text=STARTER_TEXT, boundary="end"),
        voice=PresetVoice(name=preset),
        language="en",
        seed=_SEED,
        sampling=Sampling(),
    )
    samples = [chunk.samples async for chunk in engine.synthesize(request)]
    return Clip(samples=np.concatenate(samples), rate_hz=engine.info.sample_rate_hz)


def find_starters(folder: Path, describe: Callable[[str], str]) -> list[Starter]:
    """The clips of a folder in the order of their names. Raises SettingsError naming folder or file."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in _ENDINGS and path.is_file())
    except OSError as error:
        raise SettingsError(f"starter clips: cannot read the folder {folder}: {error.strerror}") from error
    if not 0 < len(paths) <= _MAX_CLIPS:
        raise SettingsError(
            f"starter clips: {folder} has {len(paths)} clips ({', '.join(_ENDINGS)}), expected 1 to {_MAX_CLIPS}"
        )
    starters: dict[str, Starter] = {}
    for path in paths:
        name = path.stem.lower()
        if _NAME.fullmatch(name) is None:
            raise SettingsError(f"starter clips: {path.name}: a voice is named by letters, digits, - and _")
        if name in starters:
            raise SettingsError(f"starter clips: {folder} has two clips named {name}")
        starters[name] = Starter(Preset(name=name, description=describe(name)), path)
    return list(starters.values())


def profiles_of(starters: list[Starter], maker: ProfileMaker, cache: Path) -> dict[str, SpeakerProfile]:
    """Profile of each starter by name, from `cache` where it is there; blocks.

    Raises SettingsError naming the clip that cannot be used or the folder that cannot be written.
    """
    return {starter.preset.name: _profile_of(starter, maker, cache) for starter in starters}


def _profile_of(starter: Starter, maker: ProfileMaker, cache: Path) -> SpeakerProfile:
    try:
        clip = read_clip(starter.path, max_s=MAX_REFERENCE_S)
        entry = cache / f"{clip.sha256}-{maker.model_revision}-{maker.compressor_revision}.profile"
        with contextlib.suppress(OSError, ValueError, EngineError):
            cached = SpeakerProfile.from_bytes(entry.read_bytes())
            maker.prefix(cached)
            return cached
        log.info("starter_voice", voice=starter.preset.name, clip_s=round(clip.duration_s, 1))
        profile = maker.make(clip)
        cache.mkdir(parents=True, exist_ok=True)
        partial = entry.with_suffix(".part")
        partial.write_bytes(profile.to_bytes())
        partial.replace(entry)
    except (ValueError, EngineError) as error:
        raise SettingsError(f"starter clip {starter.path}: {error}") from error
    except OSError as error:
        raise SettingsError(f"starter clip {starter.path}: {error.filename or ''} {error.strerror}") from error
    return profile
