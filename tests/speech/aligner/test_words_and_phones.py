"""Words and phones of what was found."""

import numpy as np

from clock_attention.speech.aligner.positions import find
from clock_attention.speech.aligner.transcript import transcript
from clock_attention.speech.aligner.words_and_phones import flags_of, grouped, phones_of, token_times, words_of
from tests.speech.aligner.coded import CodedAligner, coded_speech


def found_in(text, given=None):
    aligner, speech = CodedAligner(noise=0.5), coded_speech(text)
    phonemes = aligner.reader(given or text)
    script = transcript(phonemes, tolerant=True)
    found = find(aligner.emissions(speech.wave), script)
    return found, found.edges * 0.005, script, speech


def test_words_have_their_times():
    found, edges, script, speech = found_in("She had your dark suit.")
    words = [word for word in words_of(found, edges, script) if word.label]
    assert [word.label for word in words] == [label for _, _, label in speech.words]
    for word, (start, end, _) in zip(words, speech.words, strict=True):
        assert abs(word.start - start) < 0.02
        assert abs(word.end - end) < 0.02


def test_phones_fill_their_words_and_tokens_are_in_order():
    found, edges, script, _ = found_in("She had your dark suit.")
    phones, words = phones_of(found, edges, script), words_of(found, edges, script)
    assert phones[0].start == words[0].start == 0
    assert phones[-1].end == words[-1].end == edges[-1]
    times = token_times(found, edges, script, fits=True)
    assert (np.diff(times.starts) >= 0).all()
    assert (times.ends >= times.starts).all()
    assert not flags_of(found, edges, script)


def test_neighbours_with_equal_keys_are_one_interval():
    found, edges, _, _ = found_in("One two.")
    keys = [0] * 3 + [1] * (len(edges) - 4)
    intervals = grouped(found, edges, keys, ["a"] * 3 + ["b"] * (len(edges) - 4))
    assert [interval.label for interval in intervals] == ["a", "b"]
    assert intervals[0].end == intervals[1].start == edges[3]
