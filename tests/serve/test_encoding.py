"""Sound in pieces is the same as sound at once."""

import io

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from clock_attention.serve.encoding import AUDIO_FORMATS, Encoder

RATE = 22050


def tone(samples):
    return (0.3 * np.sin(0.06 * np.arange(samples))).astype(np.float32)


def test_every_sample_arrives_whatever_the_pieces():
    @settings(max_examples=15, deadline=None)
    @given(st.sampled_from(sorted(AUDIO_FORMATS)), st.lists(st.integers(0, 9000), min_size=1, max_size=4).filter(sum))
    def check(name, lengths):
        wave = tone(sum(lengths))
        encoder = Encoder(name, RATE)
        pieces = [encoder.write(piece) for piece in np.split(wave, np.cumsum(lengths)[:-1])]
        streamed = b"".join(pieces) + encoder.finish()
        expected = len(wave) * encoder.rate / RATE
        if name == "pcm":
            assert streamed == encoder.whole()
            assert len(streamed) / 2 == pytest.approx(expected, abs=2)
        else:
            found, rate = soundfile.read(io.BytesIO(encoder.whole()), dtype="float32")
            assert (rate, len(found)) == (encoder.rate, pytest.approx(expected, abs=2))
            if name in ("wav", "flac"):
                np.testing.assert_allclose(found, wave, atol=1e-4)
                again, _ = soundfile.read(io.BytesIO(streamed), dtype="float32")
                np.testing.assert_array_equal(again, found)

    check()


def test_a_streamed_mp3_is_the_whole_one_without_its_length():
    wave = tone(60_000)
    encoder = Encoder("mp3", RATE)
    streamed = b"".join(encoder.write(piece) for piece in np.split(wave, 3)) + encoder.finish()
    found, _ = soundfile.read(io.BytesIO(streamed))
    delay = 1105  # of LAME and its decoder, which only the whole file tells
    assert len(found) >= len(wave) + delay
    np.testing.assert_allclose(found[delay + 600 : delay + 50_000], wave[600:50_000], atol=0.02)


def test_too_loud_samples_are_clipped_not_wrapped():
    encoder = Encoder("wav", RATE)
    encoder.write(np.array([2.0, -2.0], np.float32))
    encoder.finish()
    assert np.frombuffer(encoder.whole()[44:], "<i2").tolist() == [32767, -32767]
