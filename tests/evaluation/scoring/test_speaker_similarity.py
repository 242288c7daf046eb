"""Speaker embeddings; skipped where the weights are not installed."""

import numpy as np
import pytest

from clock_attention.evaluation.scoring.speaker_similarity import load_encoder, similarity
from clock_attention.speech.corpus.teacher import TEACHER_RATE, Teacher, TeacherPhrase

encoder = load_encoder()
needs_weights = pytest.mark.skipif(encoder is None, reason="resemblyzer's weights are not installed")


def test_similarity_is_the_cosine_with_the_mean():
    x, y = np.eye(2, dtype=np.float32)
    np.testing.assert_allclose(similarity([x, y], [x]), [1, 0])
    np.testing.assert_allclose(similarity([x], [x, y]), [0.5**0.5])


@needs_weights
def test_a_voice_is_more_like_itself_than_like_a_shifted_one():
    """The same speech played at 0.75 of its rate is another person's."""
    teacher = Teacher()
    texts = ("The birch canoe slid on the smooth planks.", "Glue the sheet to the dark blue background.")
    waves = [teacher(TeacherPhrase(id="", group="", text=text, speed=1.0, seed=0)) for text in texts]
    first, second = (encoder.embed(wave, TEACHER_RATE) for wave in waves)
    other = encoder.embed(waves[0], round(0.75 * TEACHER_RATE))
    assert np.linalg.norm(first) == pytest.approx(1, abs=1e-4)
    assert similarity([second], [first])[0] > similarity([other], [first])[0] + 0.05


@needs_weights
def test_silence_has_no_speaker_and_short_recordings_have_one():
    with pytest.raises(ValueError, match="empty or silent"):
        encoder.embed(np.zeros(16000, np.float32), 16000)
    noise = np.random.default_rng(0).normal(size=8000).astype(np.float32) * 0.1
    assert encoder.embed(noise, 16000).shape == (256,)
