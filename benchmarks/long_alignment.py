"""Alignment of a long recording: flite reads sentences one after the other, and knows where each begins and ends.

    python benchmarks/long_alignment.py --sentences harvard_720.txt --minutes 60 --out results/long_alignment.json

Needs the program flite. Prints distances of the first and last boundary of every sentence from the truth, the time it
took, and the most memory that the process had.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import tempfile
import time
from difflib import SequenceMatcher
from itertools import cycle
from pathlib import Path

import numpy as np
import soundfile

from clock_attention.speech.aligner import Aligner

RATE = 16000


def spoken(text: str, voice: str, path: Path) -> tuple[float, float]:
    """Where the first sound begins and the last one ends, in seconds."""
    command = ["flite", "-voice", voice, "-t", text, "-o", str(path), "-psdur"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    ends = [(name, float(end)) for name, _, end in (item.rpartition(":") for item in printed)]
    sounds = [place for place, (name, _) in enumerate(ends) if name != "pau"]
    first = ends[sounds[0] - 1][1] if sounds[0] else 0.0
    return first, ends[sounds[-1]][1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sentences", type=Path, required=True, help="one a line")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--voice", default="slt")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = [line.strip() for line in options.sentences.read_text("utf-8").splitlines() if line.strip()]
    truth: list[tuple[float, float]] = []
    texts: list[str] = []
    samples = 0
    with tempfile.TemporaryDirectory() as folder:
        long, one = Path(folder) / "long.wav", Path(folder) / "one.wav"
        with soundfile.SoundFile(long, "w", RATE, 1) as file:
            for line in cycle(lines):
                first, last = spoken(line, options.voice, one)
                wave, rate = soundfile.read(one, dtype="float32")
                assert rate == RATE
                truth.append((samples / RATE + first, samples / RATE + last))
                texts.append(line)
                file.write(wave)
                samples += len(wave)
                if samples >= options.minutes * 60 * RATE:
                    break
        aligner = Aligner.load(options.model)
        aligner.align(np.zeros(RATE, np.float32) + 1e-3, "one", sample_rate=RATE)  # compiles
        began, processor = time.monotonic(), time.process_time()
        aligned = aligner.align(long, " ".join(texts))
        seconds, processor = time.monotonic() - began, time.process_time() - processor
    words = [word for word in aligned.words if word.label]
    written = [aligner.reader(text).words for text in texts]
    match = SequenceMatcher(None, [w for line in written for w in line], [w.label for w in words], autojunk=False)
    at = {block.a + step: words[block.b + step] for block in match.get_matching_blocks() for step in range(block.size)}
    place, found = 0, []
    for line in written:
        first, last = at.get(place), at.get(place + len(line) - 1)
        found.append((first.start if first else np.nan, last.end if last else np.nan))
        place += len(line)
    errors = np.abs(np.array(found) - np.array(truth)) * 1000
    result = {
        "voice": f"flite {options.voice}",
        "minutes": samples / RATE / 60,
        "sentences": len(texts),
        "words": place,
        "words_found": len(words),
        "boundaries": int(np.isfinite(errors).sum()),
        "error_ms": {
            "median": float(np.nanmedian(errors)),
            "p95": float(np.nanquantile(errors, 0.95)),
            "most": float(np.nanmax(errors)),
        },
        "score": aligned.score,
        "flags": len(aligned.flags),
        "processor_seconds": processor,
        "seconds": seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
