"""Tables, claims and pages from results that were made up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from clock_attention.evaluation.experiment.plan import SMALL
from clock_attention.evaluation.experiment.report import Evidence, write_report
from clock_attention.evaluation.report.document import AudioSamples, Picture, embedded
from clock_attention.evaluation.report.figures import draw_scores
from tests.evaluation.evaluations import SWEEP, TEXTS, canned

pytest.importorskip("jiwer", reason="jiwer is not installed")
pytest.importorskip("whisper_normalizer", reason="whisper-normalizer is not installed")


def test_phone_error_rates_are_called_so(tmp_path: Path) -> None:
    phones = replace(SWEEP[0], recognizers={"ear-phones": "f"})
    phones = replace(phones, results=tuple(replace(r, transcripts={"ear-phones": "k ae t"}) for r in phones.results))
    markdown, _ = write_report(Evidence({}, SMALL, [phones]), tmp_path)
    text = markdown.read_text("utf-8")
    assert "Phone error rate" in text
    assert "Word error rate" not in text
    assert "Character error rate" not in text


def test_the_page_is_complete_and_needs_nothing_else(tmp_path: Path) -> None:
    picture, sound = tmp_path / "scores.png", tmp_path / "a sound.flac"
    draw_scores(SWEEP, picture)
    sound.write_bytes(b"fLaC<&>")
    about = {"preset": "small", "seed": 3, "recognizers": ["ear"], "seconds": {"train parallel-clock": 7200.0}}
    evidence = Evidence(
        about,
        [one for one in SMALL if one.name in ("parallel-clock", "parallel-dot", "causal-clock")],
        SWEEP,
        hard=[canned("parallel-clock", None, 1)],
        pictures=[Picture(picture, "Rates & intervals")],
        sounds=[AudioSamples("“Heels.”", (("parallel-clock, natural", sound),))],
    )
    markdown, page = write_report(evidence, tmp_path / "out")
    text, html = markdown.read_text("utf-8"), page.read_text("utf-8")
    for needle in ("holds", "parallel-dot", "seed: 3", "2.0 h", "clock-attention", "synthetic speech"):
        assert needle in text
        assert needle in html
    assert "![Rates & intervals](../scores.png)" in text
    assert "[parallel-clock, natural](../a%20sound.flac)" in text
    assert embedded(picture) in html
    assert embedded(sound) in html
    assert "Rates &amp; intervals" in html
    assert "http" not in html
    assert "<script" not in html


def test_numbers_for_programs_hold_no_sentence(tmp_path: Path) -> None:
    contestants = [one for one in SMALL if one.name in ("parallel-clock", "parallel-dot")]
    write_report(Evidence({"seed": 3}, contestants, SWEEP, hard=[canned("parallel-clock", None, 1)]), tmp_path)
    text = (tmp_path / "results.json").read_text("utf-8")
    found = json.loads(text)
    assert found["about"]["seed"] == 3
    assert {(one["system"], one["prompts"]) for one in found["hard"]} == {("parallel-clock", len(TEXTS))}
    rates = {(one["system"], one["mpr"]): one["scores"]["ear"]["wer"] for one in found["sweep"]}
    assert rates["parallel-clock", 6]["estimate"] == pytest.approx(1 / 160)
    compared = [row["difference"] for row in found["differences"]]  # at every length that both have
    assert sum("− parallel-dot" in name for name in compared) == sum("− teacher" in name for name in compared) == 4
    assert "zebra" not in text
    assert "mat today" not in text


def test_causal_clocks_are_compared_with_the_other_autoregressive_systems_and_with_parallel_clocks(
    tmp_path: Path,
) -> None:
    sweep = [canned("parallel-clock", None, 1), canned("causal-clock", None, 2), canned("autoregressive-dot", 7, 3)]
    write_report(Evidence({}, SMALL, sweep), tmp_path)
    found = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert [row["difference"] for row in found["differences"]] == [
        "causal-clock, natural − autoregressive-dot, MPR 7",
        "causal-clock, natural − parallel-clock, natural",
    ]


def test_a_report_needs_only_a_sweep(tmp_path: Path) -> None:
    markdown, _ = write_report(Evidence({}, [], SWEEP[:1], synthetic=False), tmp_path)
    assert "hard list" not in markdown.read_text("utf-8")
