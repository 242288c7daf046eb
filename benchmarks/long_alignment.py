"""Alignment of long recordings: flite reads sentences one after the other, and knows where each begins and ends.

    python benchmarks/long_alignment.py --sentences harvard_720.txt --minutes 10 30 60 --out results/long_alignment.json

Needs the program flite. For each length: distances of the first and last boundary of every sentence from the truth, the
time it took, and the most memory that the process had. Each length is aligned in a process of its own, on one core, and
is the beginning of the longest one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import subprocess
import tempfile
import time
from difflib import SequenceMatcher
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

RATE = 16000
Spoken = list[tuple[str, float, float]]  # sentences with the start of their first sound and the end of the last, in s


def read_aloud(text: str, voice: str, path: Path) -> tuple[float, float]:
    """Write a text read by flite; returns where its first sound begins and the last one ends, in seconds."""
    command = ["flite", "-voice", voice, "-t", text, "-o", str(path), "-psdur"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    ends = [(name, float(end)) for name, _, end in (item.rpartition(":") for item in printed)]
    sounds = [place for place, (name, _) in enumerate(ends) if name != "pau"]
    first = ends[sounds[0] - 1][1] if sounds[0] else 0.0
    return first, ends[sounds[-1]][1]


def synthesize(lines: list[str], voice: str, minutes: list[float], folder: Path) -> list[tuple[Path, Spoken]]:
    """A recording of each length, with its sentences. `minutes` is in order."""
    one, spoken, samples = folder / "one.wav", [], 0
    known: dict[str, tuple[np.ndarray, float, float]] = {}
    paths = [folder / f"{length:g}.wav" for length in minutes]
    files = [soundfile.SoundFile(path, "w", RATE, 1) for path in paths]
    contents: list[Spoken] = []
    for line in cycle(lines):
        if line not in known:
            first, last = read_aloud(line, voice, one)
            wave, rate = soundfile.read(one, dtype="int16")
            assert rate == RATE
            known[line] = wave, first, last
        wave, first, last = known[line]
        spoken.append((line, samples / RATE + first, samples / RATE + last))
        samples += len(wave)
        for file in files[len(contents) :]:
            file.write(wave)
        while len(contents) < len(files) and samples >= minutes[len(contents)] * 60 * RATE:
            files[len(contents)].close()
            contents.append(list(spoken))
        if len(contents) == len(files):
            return list(zip(paths, contents, strict=True))
    raise ValueError("there are no sentences")


def measure(path: Path, spoken: Spoken, model: Path | None) -> dict[str, Any]:
    import torch

    from clock_attention.speech.aligner import Aligner

    torch.set_num_threads(1)
    aligner = Aligner.load(model)
    texts = [text for text, _, _ in spoken]
    aligner.align(np.zeros(RATE, np.float32) + 1e-3, "one", sample_rate=RATE)  # compiles
    began, processor = time.monotonic(), time.process_time()
    aligned = aligner.align(path, " ".join(texts))
    seconds, processor = time.monotonic() - began, time.process_time() - processor
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    words = [word for word in aligned.words if word.label]
    written = [aligner.reader(text).words for text in texts]
    match = SequenceMatcher(None, [w for line in written for w in line], [w.label for w in words], autojunk=False)
    at = {block.a + step: words[block.b + step] for block in match.get_matching_blocks() for step in range(block.size)}
    place, found = 0, []
    for line in written:
        first, last = at.get(place), at.get(place + len(line) - 1)
        found.append((first.start if first else np.nan, last.end if last else np.nan))
        place += len(line)
    errors = np.abs(np.array(found) - np.array([(start, end) for _, start, end in spoken])) * 1000
    return {
        "minutes": aligned.duration / 60,
        "sentences": len(texts),
        "words": place,
        "words_found": len(words),
        "boundaries": int(np.isfinite(errors).sum()),
        "error_ms": {
            "median": float(np.nanmedian(errors)),
            "p95": float(np.nanquantile(errors, 0.95)),
            "most": float(np.nanmax(errors)),
            "of the last tenth, median": float(np.nanmedian(errors[-(len(errors) // 10) :])),
        },
        "score": aligned.score,
        "flags": len(aligned.flags),
        "processor_seconds": processor,
        "seconds": seconds,
        "peak_mb": most,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sentences", type=Path, required=True, help="one a line")
    parser.add_argument("--minutes", type=float, nargs="+", default=[10.0, 30.0, 60.0])
    parser.add_argument("--voice", default="slt")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = [line.strip() for line in options.sentences.read_text("utf-8").splitlines() if line.strip()]
    result: dict[str, Any] = {"voice": f"flite {options.voice}", "recordings": []}
    with tempfile.TemporaryDirectory() as folder:
        for path, spoken in synthesize(lines, options.voice, sorted(options.minutes), Path(folder)):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                result["recordings"].append(pool.apply(measure, (path, spoken, options.model)))
            print(json.dumps(result["recordings"][-1], indent=1), flush=True)
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
