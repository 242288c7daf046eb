"""Which utterances are held out."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.corpus.splits import assign_splits, text_key

groups = st.lists(st.text(min_size=1, max_size=8), min_size=3, max_size=60)


fractions = st.sampled_from([0.0, 0.02, 0.1, 0.3])


@given(groups, fractions, fractions)
def test_a_group_is_never_split_and_wanted_splits_are_never_empty(names: list[str], valid: float, test: float) -> None:
    splits = assign_splits(names, names, valid, test)
    assert len(set(zip(names, splits, strict=True))) == len(set(names))
    if len(set(names)) >= 3:
        wanted = {"train"} | ({"valid"} if valid else set()) | ({"test"} if test else set())
        # With many held out by chance, nothing may be left for training: only then may it be missing.
        assert wanted - {"train"} <= set(splits) or "train" not in splits
    assert not (valid == 0 and "valid" in splits)


def test_split_depends_on_the_text_alone() -> None:
    names = [f"LJ{number:05d}" for number in range(2000)]
    splits = dict(zip(names, assign_splits(names, names, 0.05, 0.1), strict=True))
    half = dict(zip(names[::-2], assign_splits(names[::-2], names[::-2], 0.05, 0.1), strict=True))
    assert half == {name: splits[name] for name in half}
    counts = Counter(splits.values())
    assert 60 < counts["valid"] < 140
    assert 150 < counts["test"] < 250


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=80), fractions, fractions)
def test_no_sentence_is_in_two_splits(rows: list[tuple[int, int]], valid: float, test: float) -> None:
    texts = [f"Phrase {phrase}{'!' * (group % 3)}" for group, phrase in rows]
    splits = assign_splits([str(group) for group, _ in rows], texts, valid, test)
    sides = {(text_key(text), split) for text, split in zip(texts, splits, strict=True)}
    assert len(sides) == len({phrase for _, phrase in rows})


def test_case_marks_and_accents_do_not_make_another_sentence() -> None:
    assert text_key("  Naïve — cafés?") == text_key("naive, CAFES")
    assert text_key("one two") != text_key("onetwo")
    assert text_key("…") != text_key("!")
    assert text_key("\ud800")


def test_impossible_fractions_are_refused() -> None:
    with pytest.raises(ValueError, match="valid \\+ test < 1"):
        assign_splits(["a"], ["a"], 0.5, 0.5)
