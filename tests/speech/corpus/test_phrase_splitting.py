import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.corpus.phrase_splitting import split_phrases

words = st.lists(st.from_regex(r"[a-z]{1,12}[,.;]?", fullmatch=True), max_size=60).map(" ".join)


@given(words, st.integers(5, 30), st.integers(0, 100), st.integers(0, 5))
def test_phrases_keep_every_word_and_the_length_limit(text: str, shortest: int, more: int, seed: int) -> None:
    longest = shortest + 20 + more
    phrases = list(split_phrases(text, shortest, longest, seed))
    assert " ".join(phrases).split() == text.split()
    assert all(len(phrase) <= longest for phrase in phrases)
    assert phrases == list(split_phrases(text, shortest, longest, seed))


def test_phrases_break_at_punctuation_and_vary() -> None:
    text = (
        "In being comparatively modern, it differs from most, if not from all, the arts and crafts on show here today."
    )
    lengths = {tuple(map(len, split_phrases(text, 15, 60, seed))) for seed in range(20)}
    assert len(lengths) > 2
    for phrase in split_phrases(text, 15, 60, 1):
        assert phrase.endswith((",", "."))


def test_phrase_lengths_must_make_sense() -> None:
    with pytest.raises(ValueError, match="shortest <= longest"):
        list(split_phrases("some text", 30, 20))
