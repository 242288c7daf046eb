"""Error rates against jiwer, differences against scipy, skips and repeats by construction."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from clock_attention.evaluation.scoring.error_rates import Counts, difference, normalize_transcript, score_sentences

jiwer = pytest.importorskip("jiwer", reason="jiwer is not installed")
pytest.importorskip("whisper_normalizer", reason="whisper-normalizer is not installed")
stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")

# Words that the normalizer leaves alone.
WORDS = ["apple", "bridge", "candle", "dragon", "engine", "forest", "garden", "hammer", "island", "jacket"]
sentence = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
transcript = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


def a_score(seed: int, shared: float = 0.0):
    """Sentences of ten words, of which a seeded choice is misheard; `shared` of them is the same for every seed."""
    draw, common = np.random.default_rng(seed), np.random.default_rng(99)
    references, hypotheses = [], []
    for _ in range(80):
        words = list(common.choice(WORDS, 10))
        wrong = np.where(common.random(10) < shared, common.random(10), draw.random(10)) < 0.2
        references.append(" ".join(words))
        hypotheses.append(" ".join("zebra" if bad else word for bad, word in zip(wrong, words, strict=True)))
    return score_sentences(references, hypotheses)


@given(st.lists(st.tuples(sentence, transcript), min_size=1, max_size=8))
def test_pooled_rates_are_jiwers(pairs: list[tuple[str, str]]) -> None:
    references, hypotheses = (list(side) for side in zip(*pairs, strict=True))
    score = score_sentences(references, hypotheses, resamples=10)
    words, chars = jiwer.process_words(references, hypotheses), jiwer.process_characters(references, hypotheses)
    assert score.wer.estimate == pytest.approx(words.wer)
    assert score.cer.estimate == pytest.approx(chars.cer)
    assert score.words == Counts(words.hits, words.substitutions, words.deletions, words.insertions)
    assert score.chars == Counts(chars.hits, chars.substitutions, chars.deletions, chars.insertions)
    for one, (reference, hypothesis) in zip(score.sentences, pairs, strict=True):
        assert one.words.errors / one.words.length == pytest.approx(jiwer.wer(reference, hypothesis))


def test_rates_are_pooled_not_averaged() -> None:
    score = score_sentences(["apple", "bridge candle dragon engine"], ["zebra", "bridge candle dragon engine"])
    assert score.wer.estimate == pytest.approx(1 / 5)


def test_paired_difference_agrees_with_scipy_and_profits_from_pairing() -> None:
    first, second = a_score(1, shared=0.9), a_score(2, shared=0.9)
    ours = difference(first, second)
    assert ours.estimate == pytest.approx(first.wer.estimate - second.wer.estimate)
    (errors, lengths), (others, _) = first.arrays("wer"), second.arrays("wer")
    theirs = stats.bootstrap(
        (errors, others, lengths),
        lambda a, b, n, axis: (a.sum(axis=axis) - b.sum(axis=axis)) / n.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=10_000,
        method="percentile",
        rng=np.random.default_rng(5),
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.15 * width)  # ours has 1,000 resamples
    assert ours.high == pytest.approx(theirs.high, abs=0.15 * width)
    unpaired = (first.wer.high - first.wer.low) + (second.wer.high - second.wer.low)
    assert ours.high - ours.low < 0.5 * unpaired


def test_difference_of_other_sentences_is_refused() -> None:
    first, second = score_sentences(["apple bridge"], ["apple"]), score_sentences(["apple candle"], ["apple"])
    with pytest.raises(ValueError, match="same sentences in the same order"):
        difference(first, second)


def test_a_perfect_system_has_no_errors_and_no_doubt() -> None:
    score = score_sentences(["apple bridge", "candle"], ["Apple, bridge!", "candle."])
    assert (score.wer.estimate, score.wer.low, score.wer.high) == (0, 0, 0)
    assert str(score.wer) == "0.00 % [0.00, 0.00]"


@pytest.mark.parametrize(
    ("written", "transcript"),
    [
        ("It’s Mr. O'Neil’s colour, isn't it?", "it's mister o'neil's color isn't it"),
        ("There were twenty-five of them in 1850.", "There were 25 of them in 1850"),
        ("um, well — yes [coughs] (so they say)", "Well yes, coughs. So they say."),
    ],
)
def test_spelling_is_not_an_error(written: str, transcript: str) -> None:
    assert score_sentences([written], [transcript]).words.errors == 0


def test_apostrophes_are_those_of_ascii() -> None:
    assert normalize_transcript("it’s") == normalize_transcript("it's")


@given(st.text(max_size=60))
def test_normalization_accepts_any_text(text: str) -> None:
    normalized = normalize_transcript(text)
    assert normalized == "" or any(letter.isalnum() for letter in normalized)


@given(st.permutations(WORDS), st.sets(st.integers(0, len(WORDS) - 1), max_size=5))
def test_words_left_out_are_skips(words: list[str], missing: set[int]) -> None:
    output = [word for place, word in enumerate(words) if place not in missing]
    (one,) = score_sentences([" ".join(words)], [" ".join(output)]).sentences
    assert (one.skips, one.repeats) == (len(missing), 0)


@given(st.permutations(WORDS), st.integers(0, len(WORDS) - 1), st.integers(1, 4), st.integers(1, 2))
def test_repeated_phrases_count_as_repeats(words: list[str], start: int, length: int, times: int) -> None:
    assume(start + length <= len(words))
    output = words[:start] + words[start : start + length] * (times + 1) + words[start + length :]
    (one,) = score_sentences([" ".join(words)], [" ".join(output)]).sentences
    assert (one.skips, one.repeats) == (0, length * times)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "repeats"),
    [
        ("the the cat sat", "the the cat sat", 0),  # written twice
        ("the cat sat", "the big cat sat", 0),  # an insertion, but nothing said again
        ("the cat sat", "the the big cat sat", 1),
        ("no no no", "no no no no", 1),
    ],
)
def test_what_counts_as_a_repeat(reference: str, hypothesis: str, repeats: int) -> None:
    assert score_sentences([reference], [hypothesis]).repeats == repeats


def test_silence_is_a_deletion_of_everything() -> None:
    score = score_sentences(["apple bridge candle"], [""])
    assert score.words == Counts(deletions=3)
    assert score.wer.estimate == score.cer.estimate == 1


def test_bad_input_is_explained() -> None:
    with pytest.raises(ValueError, match="got 1 for 2"):
        score_sentences(["apple", "bridge"], ["apple"])
    with pytest.raises(ValueError, match="at least one"):
        score_sentences([], [])
    with pytest.raises(ValueError, match=r"'\.\.\.' has no words"):
        score_sentences(["apple", "..."], ["apple", ""])


def test_summary_is_json() -> None:
    summary = json.loads(json.dumps(score_sentences(["apple bridge"], ["apple apple bridge"]).to_json()))
    assert summary["words"] == {"hits": 2, "substitutions": 0, "deletions": 0, "insertions": 1}
    assert (summary["sentences"], summary["skips"], summary["repeats"]) == (1, 0, 1)
    assert summary["wer"]["estimate"] == 0.5


def test_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jiwer", None)
    with pytest.raises(ModuleNotFoundError, match=r"jiwer is not installed.*clock-attention\[evaluation\]"):
        score_sentences(["apple"], ["apple"])
