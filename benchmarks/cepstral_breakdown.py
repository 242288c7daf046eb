"""Where does a voice's cepstral distance to recordings come from: its pitch, its energies, its durations or its mel?

Decodes held-out utterances of aligned corpora with true durations, pitch and energies, and with predicted ones in
their place. Distances are frame by frame where durations are true, and along the best time warp (DTW) in the last
column; movement and variance are ratios to the recordings'.

    python benchmarks/cepstral_breakdown.py RUN … --corpus runs/natural --out results/cepstral_breakdown.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clock_attention.evaluation.scoring.bootstrap import mean_with_interval
from clock_attention.evaluation.scoring.cepstra import cepstra, cepstral_distance
from clock_attention.evaluation.scoring.sharpness import sharpness
from clock_attention.speech.corpus.joined_stores import open_corpora
from clock_attention.speech.model.aligned import AlignedModel, keep
from clock_attention.speech.model.transformer_model import past_end
from clock_attention.speech.training.aligned import collate_aligned
from clock_attention.speech.training.batching import Plan
from clock_attention.speech.voice.from_run import opened_voice

TOKENS = range(30, 90)  # of the utterances that are decoded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--corpus", type=Path, action="append", required=True)
    parser.add_argument("--utterances", type=int, default=24)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    store = open_corpora(arguments.corpus)
    held_out = [item for name in ("valid", "test") for item in store.split(name)]
    rows = [store.utterances[item] for item in held_out]
    fitting = [
        item
        for item, row in zip(held_out, rows, strict=True)
        if len(row.tokens) in TOKENS and row.frames == row.natural_frames and row.durations is not None
    ]
    found = []
    for run in arguments.runs:
        with opened_voice(run, "last") as voice, torch.no_grad():
            steps = voice.card.provenance.steps
            measured = [breakdown(voice.model, store, item) for item in fitting[: arguments.utterances]]
        row = {name: mean_with_interval([one[name] for one in measured]) for name in measured[0]}
        found.append({"run": run.name, "steps": steps, "utterances": len(measured)} | row)
        print(found[-1], flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1))


def breakdown(model: AlignedModel, store: Any, item: int) -> dict[str, float]:
    """Distances of one utterance with true and predicted inputs."""
    batch = collate_aligned(store, Plan((item,), (store.utterances[item].frames,)))
    encoding = model.encode(batch.tokens, batch.token_lengths)
    present = keep(past_end(batch.frames, batch.mel.shape[1]))

    def in_nepers(mel: torch.Tensor) -> np.ndarray[Any, Any]:
        return (mel[0] * store.std + store.mean).numpy()

    def decoded(energy: torch.Tensor, own_pitch: bool) -> np.ndarray[Any, Any]:
        aligned, _ = model.read(encoding, batch.durations, energy, present.shape[1])
        hidden, pitch, voiced = model.predict_prosody(aligned, present)
        contour = (pitch, (voiced > 0).float()) if own_pitch else (batch.pitch, batch.voiced)
        return in_nepers(model.decode(aligned, hidden, *contour, present).mean)

    true = in_nepers(batch.mel)

    def distance(mel: np.ndarray[Any, Any]) -> float:
        return float(np.linalg.norm(cepstra(mel) - cepstra(true), axis=1).mean())

    spoken = in_nepers(model.synthesise(batch.tokens, batch.token_lengths).mel)
    ratio = sharpness(spoken).ratio(sharpness(true))
    return {
        "true": distance(decoded(batch.energy, False)),
        "own_energy": distance(decoded(encoding.energy, False)),
        "own_pitch": distance(decoded(batch.energy, True)),
        "own_both": distance(decoded(encoding.energy, True)),
        "all_own": cepstral_distance(spoken, true),
        "time": ratio.time,
        "bins": ratio.bins,
        "variance": ratio.variance,
    }


if __name__ == "__main__":
    main()
