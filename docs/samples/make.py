"""Makes the audio samples and the picture of the README with the voices in the package.

python docs/samples/make.py [VOICE]            # writes docs/samples/*.mp3 and docs/figures/speak.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import soundfile
import torch

from clock_attention.speech.voice import Voice

FOLDER = Path(__file__).parent
CANOE = "The birch canoe slid on the smooth planks."
SAMPLES: dict[str, tuple[str, dict[str, Any]]] = {
    "natural": (CANOE, {}),
    "slow": (CANOE, {"pace": 0.65}),
    "fast": (CANOE, {"pace": 1.5}),
    "four_seconds": ("These words take exactly four seconds, not one frame more.", {"duration": 4.0}),
    "long": ("Glue the sheet to the dark blue background. It's easy to tell the depth of a well.", {}),
    "autoregressive": (CANOE, {}),
    "kathleen": ("This voice learned from eighty minutes of recordings, in a quarter of an hour.", {}),
}


def main() -> None:
    torch.set_num_threads(1)
    name = sys.argv[1] if len(sys.argv) > 1 else "default"
    for sample, (text, options) in SAMPLES.items():
        voice = Voice.load("kathleen" if sample == "kathleen" else name)
        if sample == "autoregressive":
            voice = voice.with_decoding("autoregressive")
        speech = voice.speak(text, **options)
        soundfile.write(FOLDER / f"{sample}.mp3", speech.audio, speech.sample_rate, format="MP3")
        print(f"{sample}: {len(speech.audio) / speech.sample_rate:.2f} s")
        if sample == "natural":
            speech.plot(FOLDER.parent / "figures" / "speak.png")


if __name__ == "__main__":
    main()
