"""Predicted opinion scores."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from clock_attention.evaluation.scoring import opinion
from clock_attention.evaluation.scoring.opinion import load_predictor


def test_dnsmos_is_given_what_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {}

    def run(samples: np.ndarray, sr: int) -> dict[str, float]:
        given.update(samples=samples, sr=sr)
        return {"ovrl_mos": np.float64(3.0), "sig_mos": 3.5, "bak_mos": 4.0, "p808_mos": 3.2}

    monkeypatch.setitem(sys.modules, "speechmos.dnsmos", SimpleNamespace(run=run))
    monkeypatch.setitem(sys.modules, "speechmos", SimpleNamespace(dnsmos=run))
    monkeypatch.setattr(opinion, "version", lambda package: "1")
    predictor = load_predictor("dnsmos")
    scores = predictor(np.full(22050, 1.5, np.float32), 22050)
    assert scores == {"ovrl": 3.0, "sig": 3.5, "bak": 4.0, "p808": 3.2}
    assert (given["sr"], len(given["samples"])) == (16000, 16000)
    assert np.abs(given["samples"]).max() <= 1
    with pytest.raises(ValueError, match="empty recording"):
        predictor(np.zeros(0, np.float32), 22050)


def test_what_is_missing_or_unknown_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "speechmos", None)
    monkeypatch.delitem(sys.modules, "speechmos.dnsmos", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"clock-attention\[mos\]"):
        load_predictor("dnsmos")
    with pytest.raises(ValueError, match=r"unknown predictor .*'mosnet'; choose one of dnsmos, distillmos"):
        load_predictor("mosnet")


@pytest.mark.slow
def test_distillmos_detects_noise() -> None:
    if find_spec("distillmos") is None:  # importing it would need torchaudio
        pytest.skip("the package distillmos is not installed (extra mos)")
    predictor = load_predictor("distillmos")
    noise = np.random.default_rng(0).normal(0, 0.1, 22050).astype(np.float32)
    assert predictor(noise, 22050)["mos"] < 2
    with pytest.raises(ValueError, match="empty recording"):
        predictor(np.zeros(0, np.float32), 22050)
