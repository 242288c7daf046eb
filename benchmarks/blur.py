"""How blurred is the mel of a voice, depending on the length of the utterance?

    python benchmarks/blur.py VOICE [VOICE ...] --corpus runs/corpus

Held-out utterances are predicted at their true length and compared with the true mel, grouped by number of tokens:

L1         frame by frame, in standard deviations
warped     along the best monotone path, at most 12 frames off: the error apart from timing
movement   mean change from frame to frame, prediction ÷ truth: 1 is as lively as speech, 0 a constant hum

Writes means with 95 % intervals (1,000 resamples of utterances) as JSON and draws them.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import astuple
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import torch
from numpy.typing import NDArray

from clock_attention.evaluation.scoring.bootstrap import bootstrap
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.training.batching import collate, in_order
from clock_attention.speech.training.losses import mel_error
from clock_attention.speech.training.warping import warped
from clock_attention.speech.voice.from_run import opened_voice

matplotlib.use("Agg")
from matplotlib import pyplot

EDGES = (1, 16, 24, 32, 40, 48, 56, 65)
MEASURES = ("L1", "warped", "movement")


@torch.no_grad()
def measured(path: str, stores: list[FeatureStore], limit: int) -> NDArray[np.float64]:
    """One row per utterance: number of tokens and the three measures."""
    rows = []
    with opened_voice(path) as voice:
        for store in stores:
            items = [item for item in store.split("valid") if len(store.utterances[item].tokens) < EDGES[-1]]
            chosen = np.random.default_rng(0).permutation(items)[:limit].tolist()
            for plan in in_order(store, chosen, 8):
                batch = collate(store, plan)
                result = voice.model(batch.tokens, batch.token_lengths, batch.frames, batch.mel).mel
                target = warped(result, batch.mel, batch.frames, 12)
                for item, frames in enumerate(plan.frames):
                    mine, true, close = (mel[item : item + 1, :frames] for mel in (result, batch.mel, target))
                    count = torch.tensor([frames])
                    errors = [float(mel_error(mine, mel, count)[0] / mel.numel()) for mel in (true, close)]
                    movement = mine.diff(dim=1).abs().mean() / true.diff(dim=1).abs().mean()
                    rows.append([int(batch.token_lengths[item]), *errors, float(movement)])
    return np.asarray(rows)


def interval(values: NDArray[np.float64]) -> list[float]:
    return list(astuple(bootstrap(values, np.ones(len(values)))))  # equal weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("voices", nargs="+", help="NAME=VOICE: voices or runs")
    parser.add_argument("--corpus", type=Path, action="append", required=True, help="feature store; repeatable")
    parser.add_argument("--limit", type=int, default=300, help="utterances of each corpus")
    parser.add_argument("--out", type=Path, default=Path("out/blur"), help="without suffix: .json and .png")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    stores = [FeatureStore.open(path) for path in arguments.corpus]
    found = {}
    for voice in arguments.voices:
        name, _, path = voice.rpartition("=")
        rows = measured(path, stores, arguments.limit)
        bins = np.digitize(rows[:, 0], EDGES)
        found[name or path] = [
            {"tokens": [low, high - 1], "utterances": int((bins == place).sum())}
            | {measure: interval(rows[bins == place, column]) for column, measure in enumerate(MEASURES, 1)}
            for place, (low, high) in enumerate(pairwise(EDGES), 1)
            if (bins == place).any()
        ]
        for row in found[name or path]:
            values = "  ".join("{} {:.3f} [{:.3f}, {:.3f}]".format(measure, *row[measure]) for measure in MEASURES)
            print(f"{name or path}, {row['tokens'][0]}-{row['tokens'][1]} tokens ({row['utterances']}): {values}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.with_suffix(".json").write_text(json.dumps(found, indent=1))
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3), layout="constrained")
    for axis, measure in zip(axes, MEASURES, strict=True):
        for name, rows in found.items():
            middles = [sum(row["tokens"]) / 2 for row in rows]
            mean, low, high = np.asarray([row[measure] for row in rows]).T
            axis.plot(middles, mean, marker=".", label=name)
            axis.fill_between(middles, low, high, alpha=0.2)
        axis.set(xlabel="tokens of the utterance", title=measure)
        axis.set_ylim(bottom=0)
    axes[0].legend(frameon=False)
    figure.savefig(arguments.out.with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    main()
