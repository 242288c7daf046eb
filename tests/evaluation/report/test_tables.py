"""Evaluations as tables."""

from __future__ import annotations

import pytest

from clock_attention.evaluation.report.tables import difference_table, score_table, sweep_table
from tests.evaluation.evaluations import SWEEP

pytest.importorskip("jiwer", reason="jiwer is not installed")
pytest.importorskip("whisper_normalizer", reason="whisper-normalizer is not installed")


def test_tables_have_a_row_for_every_system() -> None:
    header, *rows = sweep_table(SWEEP, "ear")
    assert header == ["system", "natural", "MPR 4", "MPR 6", "MPR 10"]
    assert [row[0] for row in rows] == ["parallel-clock", "parallel-dot", "causal-clock", "teacher"]
    assert rows[0][3].startswith("0.6 [")
    assert rows[2][2:] == ["", "", ""]
    assert len(score_table(SWEEP)) == 1 + len(SWEEP)
    header, row = difference_table(SWEEP, [(0, 4)])
    assert row[:2] == ["parallel-clock, natural − parallel-dot, natural", "ear"]
    assert row[2].startswith("-1.25 [")
