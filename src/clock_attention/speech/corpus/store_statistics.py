"""Statistics of a feature store: amounts, pace, phoneme coverage, and a figure of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clock_attention.speech.corpus.splits import SPLITS
from clock_attention.speech.corpus.store import FeatureStore


@dataclass(frozen=True)
class CorpusStatistics:
    """Statistics of a feature store, as `corpus stats` prints them."""

    hours: dict[str, float]
    utterances: dict[str, int]
    seconds: np.ndarray[Any, Any]
    mpr: np.ndarray[Any, Any]
    mean_mpr: float
    tokens: Counter[str]
    unused: tuple[str, ...]
    speakers: dict[str, float]  # hours of each; empty without names

    @classmethod
    def of(cls, store: FeatureStore) -> CorpusStatistics:
        per_second = store.mel_config.frames_per_second
        frames = np.array([utterance.frames for utterance in store.utterances])
        lengths = np.array([len(utterance.tokens) for utterance in store.utterances])
        tokens = Counter(store.symbols[token] for utterance in store.utterances for token in utterance.tokens)
        speakers = {speaker.name: 0.0 for speaker in store.speakers if speaker.name}
        for utterance in store.utterances:
            if utterance.speaker:
                speakers[utterance.speaker] += utterance.frames / per_second / 3600
        return cls(
            hours={name: frames[store.split(name)].sum() / per_second / 3600 for name in SPLITS},
            utterances={name: len(store.split(name)) for name in SPLITS},
            seconds=frames / per_second,
            mpr=frames / lengths,
            mean_mpr=float(frames.sum() / lengths.sum()),
            tokens=tokens,
            unused=tuple(symbol for symbol in store.symbols if symbol not in tokens),
            speakers=speakers,
        )


def draw_summary(store: FeatureStore, path: str | Path) -> None:
    """Draw a store's statistics: histograms of length, mel-to-phoneme ratio and phonemes, and statistics of the mel."""
    from matplotlib.figure import Figure

    statistics = CorpusStatistics.of(store)
    figure = Figure(figsize=(14, 7.5), layout="constrained")
    axes = figure.subplot_mosaic([["lengths", "pace", "bins"], ["phonemes"] * 3])
    lengths, pace, bins, phonemes = axes["lengths"], axes["pace"], axes["bins"], axes["phonemes"]
    lengths.hist(statistics.seconds, bins=40)
    lengths.set(xlabel="seconds", ylabel="utterances", title=f"{sum(statistics.hours.values()):.2f} h")
    speeds = np.array([utterance.speed for utterance in store.utterances])
    pace.hist([statistics.mpr[speeds == speed] for speed in np.unique(speeds)], bins=60, stacked=True)
    if len(np.unique(speeds)) > 1:
        pace.legend([f"speed {speed:g}" for speed in np.unique(speeds)])
    pace.set(xlabel="mel-to-phoneme ratio", ylabel="utterances", title=f"mean {statistics.mean_mpr:.2f}")
    mean, std = store.mean.numpy(), store.std.numpy()
    bins.fill_between(np.arange(len(mean)), mean - std, mean + std, alpha=0.3)
    bins.plot(mean)
    bins.set(xlabel="mel bin", ylabel="log energy", title="mean ± standard deviation")
    names = [symbol for symbol, _ in statistics.tokens.most_common()]
    phonemes.bar(range(len(names)), [statistics.tokens[name] for name in names])
    phonemes.set_xticks(range(len(names)), ["␣" if name == " " else name for name in names], fontsize=9)
    phonemes.set(yscale="log", ylabel="count", title=f"{len(names)} of {len(store.symbols)} symbols")
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.part{path.suffix}")
    figure.savefig(temporary, dpi=120)
    temporary.replace(path)
