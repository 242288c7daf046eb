from __future__ import annotations

import numpy as np

from clock_attention.speech.aligner.clock_prior import OUTLIER, meeting_prior


def test_the_prior_is_best_where_the_clocks_agree_and_narrow_at_the_ends():
    target, source = np.linspace(0, 40, 81, dtype=np.float32), np.arange(40, dtype=np.float32) + 0.5
    prior = meeting_prior(target, source, 40)
    assert prior.shape == (81, 40)
    assert abs(int(prior[40].argmax()) - 20) <= 1
    assert prior.max() <= 0
    assert prior.min() >= -OUTLIER
    assert prior[0, 10] < prior[40, 30]  # ten sounds off: worse at the beginning than in the middle


def test_a_recording_without_onsets_has_no_prior():
    assert (meeting_prior(np.zeros(5, np.float32), np.ones(3, np.float32), 3) == 0).all()
