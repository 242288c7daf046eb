"""How small can the cepstral distance of two readings be? The teacher's speech against itself, shifted a little.

A mel frame is taken every 256 samples (11.6 ms). The same speech on another frame grid is just as good, and no warping
by whole frames can align the two; a voice has its own grid. Also: the teacher's readings at other speeds.

    python benchmarks/cepstral_floor.py --prompts harvard_720.txt --out results/cepstral_floor.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sound import chosen, teacher_wave

from clock_attention.evaluation.scoring.bootstrap import mean_with_interval
from clock_attention.evaluation.scoring.cepstra import cepstral_distance
from clock_attention.speech.audio.mel import MelConfig, MelSpectrogram

SHIFTS = (16, 32, 64, 96, 128)  # samples, up to half a hop
SPEEDS = (1.03, 1.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", required=True, help="text file with one sentence a line")
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    mel = MelConfig.preset("hifigan")
    spectrogram = MelSpectrogram(mel)
    texts = chosen(arguments.prompts, arguments.sentences, arguments.seed)
    waves = [teacher_wave(text, mel.sample_rate) for text in texts]
    references = [spectrogram(wave).numpy() for wave in waves]

    def distance(others: list[Any]) -> list[float]:
        pairs = zip(others, references, strict=True)
        return mean_with_interval([cepstral_distance(spectrogram(wave).numpy(), mel) for wave, mel in pairs])

    moved = {f"{shift} samples later": [np.ascontiguousarray(wave[shift:]) for wave in waves] for shift in SHIFTS}
    faster = {f"read at {speed:g}": [teacher_wave(text, mel.sample_rate, speed) for text in texts] for speed in SPEEDS}
    found = {name: distance(others) for name, others in {**moved, **faster}.items()}
    print(json.dumps(found, indent=1))
    if arguments.out:
        settings = {"sentences": len(texts), "seed": arguments.seed, "hop": mel.hop_length}
        arguments.out.write_text(json.dumps({"settings": settings, "distances": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
