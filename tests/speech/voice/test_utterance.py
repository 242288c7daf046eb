"""What the acoustic model makes of one text."""

import numpy as np
import pytest
import torch

from clock_attention.speech.text.phonemes import Phonemes
from clock_attention.speech.voice.utterance import Utterance, alignment_matrix
from clock_attention.timestamps import Alignment


def test_alignments_follow_the_mean_of_all_heads_and_layers():
    layers = [torch.rand(2, 5, 3).softmax(-1), torch.rand(4, 5, 3).softmax(-1)]
    expected = torch.cat(layers).mean(0)
    np.testing.assert_allclose(alignment_matrix(layers), expected, rtol=1e-6)


@pytest.mark.parametrize(("stopped", "cut_off"), [(None, False), (True, False), (False, True)])
def test_only_speech_that_did_not_stop_was_cut_off(stopped, cut_off):
    made = Utterance(
        "", Phonemes((), (), ()), torch.zeros(0, 8), Alignment((), np.zeros(0, int), 0.1), [], [], 1, 0, stopped
    )
    assert made.hit_ceiling is cut_off
