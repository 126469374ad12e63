"""WebM with Opus: a live stream that can be begun and ended at every cluster."""

import io
from itertools import pairwise

import av
import pytest

from shared.formats import FORMATS, AudioFormat
from tests.support import webm
from tests.support.signals import cut, noise
from tests.support.webm import elements, head_and_clusters, opus_seconds
from workers.audio.encode import make_encoder

RATES = FORMATS[AudioFormat.WEBM].rates_hz


def encode(samples, rate_hz=48000):
    encoder = make_encoder(AudioFormat.WEBM, rate_hz)
    return encoder.encode(samples) + encoder.close()


def num_decoded(data):
    with av.open(io.BytesIO(data)) as container:
        return sum(frame.samples for frame in container.decode(audio=0))


def test_the_file_is_live_without_length_or_index():
    """O6: what a pipe cannot be given afterwards must not be missed."""
    ebml, segment, *parts = elements(b"".join(encode(noise(48000))))
    assert (ebml.id, ebml.first(webm.DOC_TYPE)) == (webm.EBML, b"webm")
    assert (segment.id, segment.size) == (webm.SEGMENT, None)
    ids = [part.id for part in parts]
    assert ids[:4] == [webm.SEEK_HEAD, webm.VOID, webm.INFO, webm.TRACKS]
    assert set(ids[4:]) == {webm.CLUSTER}
    assert webm.DURATION not in [child.id for child in parts[2].children()]


@pytest.mark.parametrize("rate_hz", RATES)
def test_the_track_is_one_channel_of_opus(rate_hz):
    tracks = next(part for part in elements(b"".join(encode(noise(rate_hz), rate_hz))) if part.id == webm.TRACKS)
    assert tracks.first(webm.CODEC_ID) == b"A_OPUS"
    assert tracks.first(webm.CHANNELS) == b"\x01"
    head = tracks.first(webm.CODEC_PRIVATE)
    assert head[:10] == b"OpusHead\x01\x01"
    assert int.from_bytes(head[12:16], "little") == rate_hz


def test_every_packet_is_the_header_or_whole_clusters():
    """A resuming worker drops whole packets."""
    header, *packets = encode(noise(48000 + 100))
    assert b"".join([header, *packets]) == b"".join(part.data for part in elements(header + b"".join(packets)))
    assert webm.CLUSTER not in [part.id for part in elements(header)]
    for packet in packets:
        assert {part.id for part in elements(packet)} == {webm.CLUSTER}


def test_clusters_follow_each_other_every_20_ms():
    """Timestamps are whole milliseconds and count from the codec's delay."""
    _, clusters = head_and_clusters(b"".join(encode(noise(48000))))
    starts_ms = [int.from_bytes(next(elements(data)).first(webm.TIMESTAMP)) for data in clusters]
    assert starts_ms[0] == 0
    assert all(later - earlier in (20, 21) for earlier, later in pairwise(starts_ms))
    assert len(starts_ms) >= 48


@pytest.mark.parametrize("rate_hz", RATES)
@pytest.mark.parametrize("seconds", [0.02, 0.0201, 0.514, 1.237])
def test_delay_and_padding_leave_exactly_what_went_in(rate_hz, seconds):
    samples = noise(round(rate_hz * seconds))
    data = b"".join(encode(samples, rate_hz))
    assert opus_seconds(data) == pytest.approx(len(samples) / rate_hz, abs=2e-9)


def test_it_decodes_from_every_cluster_to_every_other():
    """O6: a listener who joins late, and one whose connection breaks."""
    header, clusters = head_and_clusters(b"".join(encode(noise(24000))))
    whole = num_decoded(header + b"".join(clusters))
    assert whole == 24000
    for place in range(1, len(clusters)):
        assert num_decoded(header + b"".join(clusters[:place])) >= 960 * place - 312
        assert num_decoded(header + b"".join(clusters[place:])) == pytest.approx(whole - 960 * place, abs=960)


def test_a_cut_anywhere_leaves_a_playable_beginning():
    data = b"".join(encode(noise(24000)))
    for size in range(1000, len(data), 1000):
        assert num_decoded(data[:size]) > 0


def test_the_first_cluster_comes_within_60_ms_and_then_one_every_20():
    encoder = make_encoder(AudioFormat.WEBM, 48000)
    num_clusters = [
        sum(part.id == webm.CLUSTER for packet in encoder.encode(chunk) for part in elements(packet))
        for chunk in cut(noise(9600), 960)
    ]
    assert sum(num_clusters[:3]) >= 1
    assert num_clusters[3:] == [1] * 7
