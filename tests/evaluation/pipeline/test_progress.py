"""Progress of long evaluations."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from clock_attention.evaluation.pipeline import progress
from clock_attention.evaluation.pipeline.progress import Watch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_time_left_is_that_of_fresh_utterances(clock: list[float]) -> None:
    with Watch(Console(file=io.StringIO()), 100, "a", quiet=True) as watch:
        watch.advance(60)  # all at once, out of the cache
        clock[0] = 10.0
        watch.advance(1)
        clock[0] = 20.0
        watch.advance(1)
        assert watch.left() == pytest.approx(38 * 10)


def test_a_file_gets_a_line_every_half_minute(clock: list[float]) -> None:
    file = io.StringIO()
    with Watch(Console(file=file), 10, "clock [b], natural") as watch:
        for _ in range(4):
            clock[0] += 16.0
            watch.advance(1)
    assert file.getvalue().splitlines() == [
        "clock [b], natural: 2/10, 64 s left",
        "clock [b], natural: 4/10, 72 s left",
    ]
