"""Long recordings: the same boundaries as in short ones, wherever the cuts fall, and bounded memory."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from clock_attention.speech.aligner import long_recordings
from clock_attention.speech.aligner.long_recordings import align_long, some_words
from clock_attention.speech.aligner.results import AlignmentError
from clock_attention.speech.corpus.grammar import generate_sentences
from tests.speech.aligner.coded import CodedAligner, coded_speech


@pytest.fixture(scope="module")
def aligner():
    return CodedAligner()


def blocks(wave, size=100_000):
    for start in range(0, len(wave), size):
        yield wave[start : start + size]


def text_of(count, seed=0):
    return " ".join(text for _, text in generate_sentences(count, seed))


def spoken(words):
    return [word for word in words if word.label]


def assert_tiles(tier, duration):
    assert tier[0].start == 0
    assert tier[-1].end == duration
    assert all(left.end == right.start for left, right in pairwise(tier))
    assert not any(not left.label and not right.label for left, right in pairwise(tier))


def test_two_minutes_in_pieces_have_the_boundaries_that_were_spoken(aligner):
    speech = coded_speech(text_of(34))
    assert len(speech.wave) > 120 * 16000
    reached = []
    aligned = align_long(aligner, blocks(speech.wave), aligner.reader(speech.text), reached.append)
    assert aligned.duration == len(speech.wave) / 16000
    assert reached == sorted(reached)
    assert reached[-1] == pytest.approx(aligned.duration, abs=0.01)
    assert_tiles(aligned.words, aligned.duration)
    assert_tiles(aligned.phones, aligned.duration)
    assert [word.label for word in spoken(aligned.words)] == [label for _, _, label in speech.words]
    found = np.array([(word.start, word.end) for word in spoken(aligned.words)])
    truth = np.array([(start, end) for start, end, _ in speech.words])
    assert np.abs(found - truth).max() < 0.03
    assert np.median(np.abs(found - truth)) < 0.005
    assert aligned.fits
    assert aligned.flags == []


def test_one_piece_or_several_agree(aligner):
    speech = coded_speech(text_of(10), seed=1)
    whole = aligner.align(speech.wave, speech.text, sample_rate=16000)
    pieces = align_long(aligner, blocks(speech.wave, 7777), aligner.reader(speech.text))
    assert [word.label for word in pieces.words] == [word.label for word in whole.words]
    np.testing.assert_allclose([w.start for w in pieces.words], [w.start for w in whole.words], atol=0.006)


def near(parts, aligned, offsets):
    """How many words of parts, at these times, begin where they were spoken; those next to a hole are not asked."""
    starts = np.array([word.start for word in spoken(aligned.words)])
    truth = [time + start for part, time in zip(parts, offsets, strict=True) for start, _, _ in part.words[2:-2]]
    return np.mean([np.abs(starts - start).min() < 0.02 for start in truth])


@pytest.fixture(scope="module")
def parts():
    return [coded_speech(text_of(9, seed), seed) for seed in range(3)]


def test_speech_that_is_not_written_is_flagged_and_moves_nothing_else(aligner, parts):
    first, middle, last = parts
    wave = np.concatenate([part.wave for part in parts])
    aligned = align_long(aligner, blocks(wave), aligner.reader(f"{first.text} {last.text}"))
    begin, end = len(first.wave) / 16000, (len(first.wave) + len(middle.wave)) / 16000
    flags = [flag for flag in aligned.flags if flag.kind == "spoken-not-written"]
    assert (flags[0].start, flags[-1].end) == pytest.approx((begin, end), abs=1.0)
    assert sum(flag.end - flag.start for flag in flags) > 0.9 * (end - begin)
    assert near([first, last], aligned, [0, end]) > 0.97
    assert aligned.fits


def test_a_passage_that_is_not_spoken_is_flagged_and_moves_nothing_else(aligner, parts):
    first, middle, last = parts
    wave = np.concatenate([first.wave, last.wave])
    aligned = align_long(aligner, blocks(wave), aligner.reader(" ".join(part.text for part in parts)))
    left_out = [flag.word for flag in aligned.flags if flag.kind == "written-not-spoken"]
    assert len(left_out) > 0.95 * len(middle.words)
    assert near([first, last], aligned, [0, len(first.wave) / 16000]) > 0.97


def test_a_passage_that_differs_moves_nothing_else(aligner, parts):
    first, middle, last = parts
    wave = np.concatenate([part.wave for part in parts])
    other = text_of(9, 7)
    aligned = align_long(aligner, blocks(wave), aligner.reader(f"{first.text} {other} {last.text}"))
    assert near([first, last], aligned, [0, (len(first.wave) + len(middle.wave)) / 16000]) > 0.97
    assert len(aligned.flags) > 5


def test_minutes_of_silence_before_and_after_are_silence(aligner):
    speech = coded_speech(text_of(5))
    quiet = np.zeros(90 * 16000, dtype=np.float32)
    aligned = align_long(aligner, blocks(np.concatenate([quiet, speech.wave, quiet])), aligner.reader(speech.text))
    assert aligned.words[0].label == ""
    assert aligned.words[0].end == pytest.approx(90 + speech.words[0][0], abs=0.02)
    assert aligned.words[-1].start == pytest.approx(90 + speech.words[-1][1], abs=0.02)
    assert aligned.flags == []
    assert aligned.fits


def test_the_text_of_another_recording_does_not_fit(aligner):
    speech, other = coded_speech(text_of(20, 5)), text_of(20, 6)
    assert not align_long(aligner, blocks(speech.wave), aligner.reader(other)).fits


def test_nothing_to_align(aligner):
    with pytest.raises(AlignmentError, match="empty"):
        align_long(aligner, iter(()), aligner.reader("hello"))


def test_words_of_a_piece_keep_their_boundaries(aligner):
    phonemes = aligner.reader("One two, three. Four!")
    part = some_words(phonemes, 1, 3)
    assert part.words == ("two", "three")
    assert part.tokens[-1] == "."
    assert "," in part.tokens
    assert set(part.word_index) == {-1, 0, 1}


def test_memory_does_not_grow_with_the_length(aligner, monkeypatch):
    """Three times the audio, hardly more memory: of what grows, the words are small."""
    monkeypatch.setattr(long_recordings, "BAND", 500)
    monkeypatch.setattr(long_recordings, "LAG", 1000)
    speech = coded_speech(text_of(8), seed=2)

    def peak(repeats):
        text = aligner.reader(" ".join([speech.text] * repeats))
        tracemalloc.start()
        try:
            align_long(aligner, (speech.wave for _ in range(repeats)), text)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(9) < 1.3 * peak(3)


@pytest.mark.slow
def test_an_hour_has_the_boundaries_that_were_spoken_in_bounded_memory(aligner):
    text = text_of(1080, 11)
    speech = coded_speech(text, seed=3)
    assert len(speech.wave) > 3600 * 16000
    phonemes = aligner.reader(text)
    tracemalloc.start()
    try:
        aligned = align_long(aligner, blocks(speech.wave), phonemes)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 250e6
    assert_tiles(aligned.words, aligned.duration)
    assert [word.label for word in spoken(aligned.words)] == [label for _, _, label in speech.words]
    found = np.array([(word.start, word.end) for word in spoken(aligned.words)])
    errors = np.abs(found - np.array([(start, end) for start, end, _ in speech.words]))
    assert np.median(errors) < 0.005
    assert errors.max() < 0.1
