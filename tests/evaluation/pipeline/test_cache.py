"""What is written is found again, by this process and the next, whatever was cut short."""

from __future__ import annotations

from pathlib import Path

from clock_attention.evaluation.pipeline.cache import Cache


def test_results_outlive_the_process(tmp_path: Path) -> None:
    Cache(tmp_path).put("a", {"transcript": "“naïve” 字\nline", "seconds": 1.5})
    assert Cache(tmp_path).get("a") == {"transcript": "“naïve” 字\nline", "seconds": 1.5}
    assert Cache(tmp_path).get("b") is None


def test_ranks_write_their_own_files_and_read_all(tmp_path: Path) -> None:
    first, second = Cache(tmp_path, rank=0), Cache(tmp_path, rank=1)
    first.put("a", {"x": 1})
    second.put("b", {"x": 2})
    assert first.get("b") is None
    first.reload()
    assert first.get("b") == {"x": 2}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_line_cut_short_loses_only_itself(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("a", {"x": 1})
    cache.put("b", {"x": 2})
    whole = cache.path.read_bytes()
    for size in range(len(whole)):
        cache.path.write_bytes(whole[:size])
        after = Cache(tmp_path)
        assert set(after.rows) <= {"a", "b"}
        after.put("c", {"x": 3})
        again = Cache(tmp_path)
        assert again.get("c") == {"x": 3}
        assert again.rows.keys() == after.rows.keys()
