"""Keys of results."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clock_attention.evaluation.digest import digest

keys = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=4)


@given(keys, keys)
def test_digests_differ_exactly_where_the_parts_do(first: dict[str, object], second: dict[str, object]) -> None:
    assert (digest(first) == digest(second)) == (first == second)
    assert digest(first) == digest(dict(reversed(first.items())))
    assert digest("ab", "c") != digest("a", "bc")
