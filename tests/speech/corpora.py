"""A tiny feature store whose mel frames follow its tokens: enough to learn from, made in a moment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus.store import FORMAT, FeatureStore, write_rows

SYMBOLS = "abcdefghij"
MELS = 8


def tiny_store(folder: Path, size: int = 40, seed: int = 0, timed: bool = False) -> FeatureStore:
    """Every symbol has its own mel frame and duration; utterances are random strings of symbols, a fifth held out."""
    draw = np.random.default_rng(seed)
    looks = draw.normal(size=(len(SYMBOLS), MELS)).astype(np.float32)
    durations = draw.integers(2, 5, len(SYMBOLS))
    rows, mels, offset = [], [], 0
    for number in range(size):
        tokens = draw.integers(0, len(SYMBOLS), draw.integers(4, 10))
        mels.append(looks[tokens].repeat(durations[tokens], axis=0))
        rows.append(
            {
                "id": f"u{number:03d}",
                "text": "".join(SYMBOLS[token] for token in tokens),
                "tokens": tokens.tolist(),
                "word_index": [0] * len(tokens),
                "words": ["word"],
                "frames": len(mels[-1]),
                "offset": offset,
                "split": "valid" if number % 5 == 0 else "train",
                "group": f"u{number:03d}",
                "speed": 1.0,
            }
            | ({"durations": [0, *durations[tokens].tolist(), 0]} if timed else {})
        )
        offset += len(mels[-1])
    folder.mkdir(parents=True)
    np.save(folder / "mel.npy", np.concatenate(mels))
    write_rows(folder / "utterances.jsonl", rows)
    write_rows(folder / "rejected.jsonl", [])
    header = {
        "format": FORMAT,
        "source": "random strings",
        "mel": MelConfig(n_mels=MELS).model_dump(),
        "phonemizer": {"name": "letters", "symbols": list(SYMBOLS)},
        "mean": [0.1] * MELS,
        "std": [1.1] * MELS,
        "mpr": offset / sum(len(row["tokens"]) for row in rows),
    }
    if timed:
        pitches = np.where(np.arange(len(SYMBOLS)) % 3 == 0, 0.0, draw.normal(5, 0.2, len(SYMBOLS)))
        sequences = (np.array(row["tokens"]) for row in rows)
        np.save(folder / "pitch.npy", np.concatenate([pitches[t].repeat(durations[t]) for t in sequences]))
        header["prosody"] = {"pitch_mean": 5.0, "pitch_std": 0.2, "energy_mean": 0.0, "energy_std": 1.0}
    (folder / "store.json").write_text(json.dumps(header))
    return FeatureStore.open(folder)


def spoken_by(store: FeatureStore, names: Sequence[str]) -> FeatureStore:
    """The same store with these speakers in turn, each in a register of their own."""
    header = json.loads((store.path / "store.json").read_text())
    rows = [replace(row, speaker=names[place % len(names)]).to_row() for place, row in enumerate(store.utterances)]
    write_rows(store.path / "utterances.jsonl", rows)
    if len(names) > 1:
        header["speakers"] = [
            {
                "name": name,
                "mean": [0.1 + 0.05 * place] * MELS,
                "std": [1.1 + 0.1 * place] * MELS,
                "mpr": header["mpr"],
                "prosody": header["prosody"] | {"pitch_mean": 5.0 + 0.3 * place} if "prosody" in header else None,
            }
            for place, name in enumerate(names)
        ]
    (store.path / "store.json").write_text(json.dumps(header))
    return FeatureStore.open(store.path)
