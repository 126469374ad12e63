"""The embedded engine on a telephone line."""

import av
import numpy as np
import pytest

from shared.formats import AudioFormat
from tests.support.signals import rms_db
from tests.support.synthesis import joined
from workers.audio.chain import ReplyChain
from workers.engines.hibari_voices import SHAPES

CODECS = {AudioFormat.ULAW: "pcm_mulaw", AudioFormat.ALAW: "pcm_alaw"}
NAMES = list(SHAPES)[:5]


@pytest.mark.parametrize("audio_format", CODECS)
@pytest.mark.parametrize("name", NAMES)
def test_an_utterance_begins_without_a_click(speak, audio_format, name):
    """O8: https://github.com/twilio-labs/call-gpt/issues/33 - ten utterances are ten clicks."""
    samples = joined(speak("Hello.", name))
    chain = ReplyChain(engine_rate_hz=24000, audio_format=audio_format, sample_rate_hz=8000, speed=1.0)
    data = b"".join(chain.feed(samples) + chain.finish())
    assert len(data) == round(len(samples) / 3)
    decoder = av.CodecContext.create(CODECS[audio_format], "r")
    decoder.sample_rate, decoder.layout = 8000, "mono"
    decoded = decoder.decode(av.Packet(data))[0].to_ndarray()[0] / np.float32(32768)
    assert rms_db(decoded[:80]) < -40
    assert np.abs(decoded[:80]).max() < 0.01
    assert rms_db(decoded) > -35
