"""Does `--adapt` help? Boundaries before and after adapting to the recordings that are aligned.

    python benchmarks/alignment_adaptation.py --timit DIR --out results/alignment_adaptation.json

Adapts to the ten sentences of each speaker of TIMIT, and to sentences of a voice of flite (`apt install flite`) that
is not in the training data. Differences are paired by recording: 95 % intervals from 1,000 bootstrap resamples of
recordings.
"""

from __future__ import annotations

import argparse
import json
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from alignment import RATE, Recording, flite_recordings, phone_errors, phone_spans, timit, word_errors, words_of

from clock_attention.files import write_atomically
from clock_attention.speech.aligner import Aligner

Rows = dict[str, list[list[float]]]  # tier: errors of each recording, in ms


def measured(aligner: Aligner, recordings: list[Recording]) -> Rows:
    rows: Rows = {"words": [], "phones": []}
    for recording in recordings:
        aligned = aligner.align(recording.wave, recording.text, sample_rate=RATE, posterior=False)
        if recording.words:
            rows["words"].append(word_errors(recording.words, words_of(aligned)))
        rows["phones"].append(phone_errors(recording.phones, phone_spans(aligned.phones)))
    return rows


def compared(before: list[list[float]], after: list[list[float]]) -> dict[str, Any]:
    """Mean error and share within 20 ms, before and after, and their difference."""
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(before), (1000, len(before)))
    out: dict[str, Any] = {}
    for name, statistic in (
        ("mean", lambda x: float(x.mean())),
        ("median", lambda x: float(np.median(x))),
        ("within 20 ms", lambda x: float(100 * (x <= 20).mean())),
    ):
        first, second = (statistic(np.concatenate(rows)) for rows in (before, after))
        differences = [
            statistic(np.concatenate([after[i] for i in draw])) - statistic(np.concatenate([before[i] for i in draw]))
            for draw in draws
        ]
        low, high = np.percentile(differences, [2.5, 97.5])
        out[name] = {"before": first, "after": second, "difference": second - first, "low": low, "high": high}
    return out


def adapted(aligner: Aligner, groups: list[list[Recording]], passes: int) -> dict[str, Any]:
    before: Rows = {"words": [], "phones": []}
    after: Rows = {"words": [], "phones": []}
    for recordings in groups:
        learned = aligner.adapt(
            [(recording.wave, recording.text) for recording in recordings], sample_rate=RATE, passes=passes
        )
        for rows, which in ((before, aligner), (after, learned)):
            for tier, found in measured(which, recordings).items():
                rows[tier] += found
    return {
        "groups": len(groups),
        "recordings": sum(map(len, groups)),
        **{tier: compared(before[tier], after[tier]) for tier in before if before[tier]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timit", type=Path, required=True)
    parser.add_argument("--flite", default="slt", help="a flite voice that is not in the training data")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="where to write JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    aligner = Aligner.load()
    recordings = timit(options.timit)
    speakers = [list(rows) for _, rows in groupby(recordings, key=lambda recording: recording.name.split("/")[0])]
    report: dict[str, Any] = {"passes": options.passes, "TIMIT, by speaker": adapted(aligner, speakers, options.passes)}
    texts = sorted({recording.text for recording in recordings})
    spoken = flite_recordings(options.flite, texts)
    if spoken:
        report[f"flite {options.flite}"] = adapted(aligner, [spoken], options.passes)
    print(json.dumps(report, indent=1))
    if options.out:
        write_atomically(options.out, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
