"""What the acoustic model makes of one text."""

import numpy as np
import pytest
import torch

from clock_attention.speech.text.phonemes import Phonemes
from clock_attention.speech.voice.utterance import Utterance, alignment_matrix, with_longer_silences
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


def test_longer_silences_keep_what_was_spoken_and_the_attention_on_it():
    mel = torch.arange(6.0)[:, None].expand(6, 4)
    weights = torch.eye(3).repeat_interleave(2, 0)[None]
    alignment = Alignment(("", "a", ""), np.array([2, 2, 2]), 0.1)
    made = Utterance("a", Phonemes(("a",), (0,), ("a",)), mel, alignment, [weights], [], 1, 6, None)
    longer = with_longer_silences(made, np.array([4, 2, 3]), -11.5)
    assert longer.alignment.durations.tolist() == [4, 2, 3]
    assert longer.silent == tuple(np.flatnonzero(longer.mel[:, 0] == -11.5))
    assert [value for value in longer.mel[:, 0].tolist() if value != -11.5] == [0, 1, 2, 3, 4, 5]
    assert alignment_matrix(longer.weights).argmax(1).tolist() == [0, 0, 0, 0, 1, 1, 2, 2, 2]
