"""How fast is text to mel, and how long does the whole `speak` command take from a cold start?

    python benchmarks/speak.py --voice voices/mine

Text → mel (phonemes, acoustic model, alignment) on one core as a fraction of real time, for sentences of several
lengths at three paces. Then the `speak` command in a fresh process, for ten words, next to `import torch` alone.
Medians; the command in wall time and CPU time, since wall time means little on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from clock_attention.speech.voice.voice import Voice

TEN_WORDS = "The birch canoe slid quietly on the smooth green water."
SENTENCES = {
    "5 words": "Glue the sheet down firmly.",
    "10 words": TEN_WORDS,
    "20 words": "It is easy to tell the depth of a well, and the juice of lemons makes a very fine punch.",
}


def text_to_mel(voice: Voice, repetitions: int) -> list[dict[str, float | str]]:
    """One row per text and pace, in CPU seconds on one thread.

    Every text is different, because the phonemizer caches the last few.
    """
    rows: list[dict[str, float | str]] = []
    for name, text in SENTENCES.items():
        for pace in (0.5, 1.0, 2.0):
            times, audio = [], []
            for number in range(repetitions + 1):  # the first loads lexicons
                started = time.process_time()
                utterance = voice.utter([f"{text} {100 + number}"], pace=pace)[0]
                times.append(time.process_time() - started)
                audio.append(len(utterance.mel) / voice.frames_per_second)
            seconds, spoken = statistics.median(times[1:]), statistics.median(audio[1:])
            rows.append(
                {"text": name, "pace": pace, "audio": spoken, "seconds": seconds, "of real time": seconds / spoken}
            )
    return rows


def cold(command: list[str], repetitions: int) -> tuple[float, float]:
    """Median wall and CPU seconds of a command in a fresh process."""
    wall, cpu = [], []
    for _ in range(repetitions):
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        wall.append(time.perf_counter() - started)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(wall), statistics.median(cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voice", default="default", help="folder of a voice")
    parser.add_argument("--vocoder", default="auto")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--cold-starts", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("out/speak.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = text_to_mel(Voice.load(arguments.voice), arguments.repetitions)
    print("text → mel, one core")
    print(f"{'text':10} {'pace':>5} {'audio s':>8} {'ms':>7} {'of real time':>13}")
    for row in rows:
        print(
            f"{row['text']:10} {row['pace']:5.1f} {row['audio']:8.2f} {1000 * float(row['seconds']):7.1f} "
            f"{row['of real time']:13.4f}"
        )
    with tempfile.TemporaryDirectory() as folder:
        options = ["--voice", str(arguments.voice), "--vocoder", arguments.vocoder, "--out", f"{folder}/a.wav"]
        commands = {
            "import torch": [sys.executable, "-c", "import torch"],
            "speak": [sys.executable, "-m", "clock_attention.cli", "speak", TEN_WORDS, *options],
        }
        cold_starts = {name: cold(command, arguments.cold_starts) for name, command in commands.items()}
    print(f"\ncold start, ten words, vocoder {arguments.vocoder}, {os.cpu_count()} cores")
    for name, (wall, cpu) in cold_starts.items():
        print(f"{name:13} {wall:5.2f} s, {cpu:5.2f} CPU s")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "text_to_mel": rows,
        "cold": {name: {"seconds": wall, "cpu_seconds": cpu} for name, (wall, cpu) in cold_starts.items()},
        "load": os.getloadavg()[0],
    }
    arguments.out.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
