"""Ranges of lengths, what each kind of system is asked for, and where it is at its best."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.evaluation.pipeline.session import Session
from clock_attention.evaluation.pipeline.sweep import (
    best,
    best_shared,
    lengths_of,
    parse_range,
    read_sweep,
    sweep,
    write_sweep,
)
from clock_attention.evaluation.report.figures import draw_sample, draw_scores
from clock_attention.evaluation.systems.systems import CopySynthesis, Length, TeacherSystem, VoiceSystem
from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.voice.voice import Voice
from tests.evaluation.conftest import PROMPTS, FakeSource
from tests.speech.corpora import tiny_store

MakeVoice = Callable[..., Voice]


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["3:10"], [3, 4, 5, 6, 7, 8, 9, 10]),
        (["3:4:0.5"], [3, 3.5, 4]),
        (["10", "6", "3:6"], [3, 4, 5, 6, 10]),
        (["0.1:0.5:0.1"], [0.1, 0.2, 0.3, 0.4, 0.5]),
        (["natural"], []),
    ],
)
def test_ranges(texts: list[str], values: list[float]) -> None:
    assert parse_range(texts) == values


@given(st.text(max_size=8))
def test_a_range_is_parsed_or_refused_with_a_message(text: str) -> None:
    try:
        values = parse_range([text])
    except ValueError:
        with pytest.raises(ValueError, match="expected 6, 3:10"):
            parse_range([text])
    else:
        assert all(value > 0 for value in values)


def test_every_kind_of_system_is_asked_what_the_paper_asks(make_voice: MakeVoice, tmp_path: Path) -> None:
    swept = [Length(), Length(mpr=3), Length(mpr=6)]
    assert lengths_of(VoiceSystem(make_voice("parallel")), [3, 6]) == swept
    assert lengths_of(TeacherSystem(MelConfig.preset("hifigan")), [3, 6]) == swept
    autoregressive = {"decoding": "autoregressive"}
    assert lengths_of(VoiceSystem(make_voice("causal", **autoregressive)), [3, 6]) == [Length()]
    printed = VoiceSystem(make_voice("printed", clocks="unnormalized", **autoregressive))
    assert lengths_of(printed, [3, 6]) == [Length(mpr=7.0)]
    dot = VoiceSystem(make_voice("dot", cross_attention="dot", **autoregressive))
    assert lengths_of(dot, [3, 6], cap=5.0) == [Length(mpr=5.0)]
    assert lengths_of(CopySynthesis(tiny_store(tmp_path / "store")), [3, 6]) == [Length()]


def test_a_sweep_is_kept_read_and_drawn(make_voice: MakeVoice, tmp_path: Path) -> None:
    systems = [
        VoiceSystem(make_voice("clock"), name="clock"),
        VoiceSystem(make_voice("causal", decoding="autoregressive"), name="causal"),
    ]
    with Session(FakeSource(), tmp_path / "out") as session:
        found = sweep(systems, PROMPTS, [3, 9], session)
    assert [one.title for one in found] == ["clock, natural", "clock, MPR 3", "clock, MPR 9", "causal, natural"]
    write_sweep(tmp_path / "out" / "sweep.json", found, seed=0)
    assert read_sweep(tmp_path / "out" / "sweep.json") == found
    draw_scores(found, tmp_path / "scores.png")
    drawn = draw_sample(systems, tmp_path)
    assert [path.name for path in drawn] == ["parallel.png", "autoregressive.png"]
    for path in [tmp_path / "scores.png", *drawn]:
        assert path.read_bytes().startswith(b"\x89PNG")


def test_the_best_length_has_the_lowest_word_error_rate(make_voice: MakeVoice, tmp_path: Path) -> None:
    first, second = VoiceSystem(make_voice("a"), name="a"), VoiceSystem(make_voice("b", seed=1), name="b")
    with Session(FakeSource(), tmp_path / "out") as session:
        found = sweep([first], PROMPTS, [3, 20], session) + sweep([second], PROMPTS, [3], session)
    rates = {one.length: one.scores["fake"].wer.estimate for one in found if one.system == "a"}
    assert len(set(rates.values())) > 1
    assert best(found, "a", "fake").length == min(rates, key=rates.__getitem__)
    assert best_shared(found, ["a", "b"], "fake") in ("natural", "MPR 3")
    assert best_shared(found[1:3], ["a", "b"], "fake") is None
