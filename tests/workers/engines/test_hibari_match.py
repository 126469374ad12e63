"""The embedded engine imitates a clip: pitch, timbre and pace; it does not clone."""

import asyncio
import dataclasses
import time

import msgspec
import numpy as np
import pytest
import soxr

from shared.clip import Clip
from shared.errors import EngineError
from tests.speech import needs_speech_recognition, word_error_rate
from tests.support.signals import median_pitch_hz, noise, rms_db, tone
from tests.support.synthesis import joined, request
from workers.audio.tempo import Tempo
from workers.engines.hibari import HibariEngine
from workers.engines.hibari_match import traits_of
from workers.engines.hibari_vocoder import VoiceShape
from workers.engines.hibari_voices import SHAPES

RATE_HZ = 24000
CLIP_TEXT = (
    "She had your dark suit in greasy wash water all year. The quick brown fox jumps over the lazy dog, while five "
    "boxing wizards watch from the balcony. Please call Stella and ask her to bring these things from the store."
)
SPOKEN_TEXT = "The meeting starts at ten in the large room. I would rather wait until the weather gets better."


@pytest.fixture(scope="module")
def said(engine):
    """What a preset says in its clip, as samples."""
    cache = {}

    def say(voice):
        if voice not in cache:
            cache[voice] = joined(_collect(engine, request(CLIP_TEXT, voice)))
        return cache[voice]

    return say


def _collect(engine, wanted):
    async def collect():
        return [chunk async for chunk in engine.synthesize(wanted)]

    return asyncio.run(collect())


def _profile(engine, samples, rate_hz=RATE_HZ):
    return asyncio.run(engine.profile(Clip(samples=np.asarray(samples, np.float32), rate_hz=rate_hz)))


def _shape(profile) -> VoiceShape:
    return msgspec.msgpack.decode(profile.payload, type=VoiceShape)


def _speak_as(engine, profile, text=SPOKEN_TEXT):
    return joined(_collect(engine, dataclasses.replace(request(text), voice=profile)))


# Played at another rate, a clip is of another speaker: pitch and formants move together.
SPEAKERS = {
    "a very low man": ("granite", 24000),
    "a man": ("birch", 24000),
    "a woman": ("heart", 24000),
    "a small person": ("heart", 30000),
    "a child": ("finch", 24000),
    "a large person": ("willow", 20000),
    "a clip at the stored rate": ("maple", 22050),
}


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_the_spoken_pitch_follows_the_clip(engine, said, speaker):
    voice, rate_hz = SPEAKERS[speaker]
    clip = said(voice)
    spoken = _speak_as(engine, _profile(engine, clip, rate_hz))
    assert median_pitch_hz(spoken, RATE_HZ) == pytest.approx(median_pitch_hz(clip, rate_hz), rel=0.1)


@pytest.mark.parametrize("voice", ["heart", "clover", "rowan", "maple", "granite"])
def test_the_length_of_the_vocal_tract_is_found_again(engine, said, voice):
    assert _shape(_profile(engine, said(voice))).formants == pytest.approx(SHAPES[voice].formants, rel=0.03)


@pytest.mark.parametrize("speed", [0.8, 1.25])
def test_a_slow_speaker_is_imitated_slower_and_a_fast_one_faster(engine, said, speed):
    tempo = Tempo(RATE_HZ, speed)
    changed = np.concatenate((tempo.process(said("birch")), tempo.flush()))
    as_it_was, as_changed = (_shape(_profile(engine, samples)).pace for samples in (said("birch"), changed))
    assert (as_changed < 0.95 * as_it_was) if speed < 1 else (as_changed > 1.05 * as_it_was)


def test_the_colour_of_a_voice_is_found_again(engine, said):
    """A clip made brighter by 3 dB an octave gives a brighter voice."""
    spectrum = np.fft.rfft(said("heart"))
    hz = np.maximum(np.fft.rfftfreq(len(said("heart")), 1 / RATE_HZ), 100)
    brighter = np.fft.irfft(spectrum * (hz / 1000) ** (1.5 / 6.02), len(said("heart")))
    plain, bright = (_shape(_profile(engine, samples)).tilt_db for samples in (said("heart"), brighter))
    assert bright - plain == pytest.approx(1.5, abs=0.5)


@pytest.mark.parametrize("damage", ["telephone", "noise", "quiet"])
def test_a_poor_recording_still_gives_the_pitch_and_about_the_vocal_tract(engine, said, damage):
    clean = said("maple")
    poor = {
        "telephone": lambda: soxr.resample(soxr.resample(clean, RATE_HZ, 8000), 8000, RATE_HZ),
        "noise": lambda: clean + 0.1 * noise(len(clean)),
        "quiet": lambda: 0.03 * clean,
    }[damage]()
    shape = _shape(_profile(engine, poor))
    assert shape.pitch == pytest.approx(SHAPES["maple"].pitch, rel=0.08)
    assert shape.formants == pytest.approx(SHAPES["maple"].formants, rel=0.1)


@pytest.mark.parametrize("voice", ["granite", "heart", "finch"])
def test_an_imitation_is_as_loud_as_the_presets(engine, said, voice):
    spoken = _speak_as(engine, _profile(engine, said(voice)))
    assert rms_db(spoken[np.abs(spoken) > 0]) == pytest.approx(-20, abs=2)
    assert np.abs(spoken).max() < 0.98


def test_the_profile_says_that_it_is_matched_and_fits_this_engine(engine, said):
    profile = _profile(engine, said("birch"))
    assert profile.kind == "matched"
    assert profile.fits(engine.info)
    assert engine.info.can_match
    assert not engine.info.can_clone


def test_the_same_clip_gives_the_same_voice_in_every_process(engine, said):
    other = HibariEngine(num_threads=1)
    asyncio.run(other.start())
    try:
        assert _profile(other, said("birch")) == _profile(engine, said("birch"))
    finally:
        asyncio.run(other.stop())


def test_a_match_takes_well_under_a_second(engine, said):
    clip = np.resize(said("birch"), 15 * RATE_HZ)
    _profile(engine, clip)
    before = time.process_time()
    _profile(engine, clip)
    assert time.process_time() - before < 0.8


@pytest.mark.parametrize(
    "samples",
    [np.zeros(RATE_HZ), noise(3 * RATE_HZ), tone(120, RATE_HZ, 0.1), np.ones(5)],
    ids=["silence", "noise", "too short", "five samples"],
)
def test_a_clip_without_a_voice_is_an_engine_error(engine, samples):
    with pytest.raises(EngineError, match="too little voiced speech"):
        _profile(engine, samples)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"model_revision": "0"}, "another revision"), ({"payload": b"\xc1"}, "damaged")],
    ids=["another revision", "a damaged payload"],
)
def test_a_profile_that_is_not_ours_is_refused(engine, said, change, message):
    profile = dataclasses.replace(_profile(engine, said("birch")), **change)
    with pytest.raises(EngineError, match=message):
        _speak_as(engine, profile)


def test_traits_do_not_depend_on_the_rate_of_the_clip(said):
    one, other = traits_of(said("reed"), RATE_HZ), traits_of(soxr.resample(said("reed"), RATE_HZ, 44100), 44100)
    assert other.pitch_hz == pytest.approx(one.pitch_hz, rel=0.01)
    assert other.vowels_per_s == pytest.approx(one.vowels_per_s, rel=0.1)
    inside = slice(150, 500)
    difference = (one.timbre_db - one.timbre_db[300])[inside] - (other.timbre_db - other.timbre_db[300])[inside]
    assert np.abs(difference).max() < 2


@needs_speech_recognition
@pytest.mark.parametrize("speaker", ["a very low man", "a child"])
def test_an_imitation_is_understood(engine, said, speaker):
    voice, rate_hz = SPEAKERS[speaker]
    spoken = _speak_as(engine, _profile(engine, said(voice), rate_hz), CLIP_TEXT)
    assert word_error_rate(CLIP_TEXT, spoken, RATE_HZ) <= 0.1
