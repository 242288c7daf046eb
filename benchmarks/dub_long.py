"""Does the memory of a dubbing stay bounded, and does an interrupted one continue?

    python benchmarks/dub_long.py --cues 2000 --jobs 2 --folder runs/dub_long --out results/dub_long.json

The cues of benchmarks/subtitles are repeated, one file after the other, until there are enough, and dubbed by
`clock-attention dub` in a process of its own. The process and all of its workers are killed when half of the cues are
spoken; the same command is run again and must keep every finished cue. Memory is the resident memory of the process
and its workers together, sampled twice a second (pages that they share count for each). With --folder, which is kept,
an interrupted measurement continues as well.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import soundfile

from clock_attention.speech.dubbing.subtitles import Cue, read_subtitles

HERE = Path(__file__).parent
FILES = ("documentary.srt", "dialogue.srt", "lecture.vtt")
GAP = 2.0  # seconds between two files


def repeated(count: int) -> list[Cue]:
    """The cues of the files, repeated, one after the other in time."""
    cues: list[Cue] = []
    begin = 0.0
    for name in cycle(FILES):
        found = read_subtitles(HERE / "subtitles" / name)
        for cue in found:
            cues.append(replace(cue, number=len(cues) + 1, start=cue.start + begin, end=cue.end + begin))
            if len(cues) == count:
                return cues
        begin += max(cue.end for cue in found) + GAP
    raise AssertionError


def as_srt(cues: list[Cue]) -> str:
    def clock(seconds: float) -> str:
        milliseconds = round(1000 * seconds)
        return (
            f"{milliseconds // 3_600_000:02d}:{milliseconds // 60_000 % 60:02d}:"
            f"{milliseconds // 1000 % 60:02d},{milliseconds % 1000:03d}"
        )

    return "\n".join(f"{cue.number}\n{clock(cue.start)} --> {clock(cue.end)}\n{cue.text}\n" for cue in cues)


def members(group: int) -> list[int]:
    """Processes of a process group."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if os.getpgid(int(folder.name)) == group:
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def resident(process: int) -> float:
    """Resident memory of a process in megabytes; 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def run(command: list[str], parts: Path, stop_at: int | None) -> dict[str, Any]:
    """Run a dubbing, kill it when `stop_at` cues are finished, and return its memory by number of finished cues."""
    started = time.monotonic()
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    memory: list[tuple[int, float]] = []
    largest = 0.0
    killed = False
    while process.poll() is None:
        each = [resident(member) for member in members(process.pid)]
        finished = sum(path.suffix == ".json" for path in parts.iterdir()) if parts.is_dir() else 0
        memory.append((finished, round(sum(each), 1)))
        largest = max([largest, *each])
        if stop_at is not None and finished >= stop_at:
            os.killpg(process.pid, signal.SIGKILL)
            killed = True
        time.sleep(0.5)
    _, result = process.communicate()
    if not killed and process.returncode:
        raise SystemExit(result)
    return {
        "seconds": round(time.monotonic() - started, 1),
        "killed": killed,
        "peak": max(total for _, total in memory),
        "largest_process": round(largest, 1),
        "memory": memory[:: max(1, len(memory) // 40)],
        "said": result.strip().splitlines()[:1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cues", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--vocoder", default="auto")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary one unless given")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.folder is not None:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        measure(arguments, arguments.folder)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            measure(arguments, Path(temporary))


def measure(arguments: argparse.Namespace, folder: Path) -> None:
    cues = repeated(arguments.cues)
    (folder / "long.srt").write_text(as_srt(cues), "utf-8")
    sound, report, parts = folder / "long.wav", folder / "report.json", folder / "stems"
    command = [sys.executable, "-m", "clock_attention.commands.main", "dub", str(folder / "long.srt")]
    command += ["-o", str(sound), "--report", str(report), "--jobs", str(arguments.jobs)]
    command += ["--stems", str(parts), "--vocoder", arguments.vocoder]
    killed = folder / "killed.json"  # the run that was killed, and what it had finished
    if not killed.is_file():
        first = run(command, parts, len(cues) // 2)
        finished = {path.name: path.stat().st_mtime_ns for path in parts.glob("*.json")}
        killed.write_text(json.dumps({"run": first, "finished": finished}), "utf-8")
    found = json.loads(killed.read_text("utf-8"))
    first, kept = found["run"], found["finished"]
    second = run(command, parts, None)
    spoken_again = sum((parts / name).stat().st_mtime_ns != when for name, when in kept.items())
    written = json.loads(report.read_text("utf-8"))
    info = soundfile.info(sound)
    table = {
        "command": "python benchmarks/dub_long.py " + " ".join(sys.argv[1:]),
        "cues": len(cues),
        "jobs": arguments.jobs,
        "vocoder": arguments.vocoder,
        "finished_before_the_kill": len(kept),
        "spoken_again": spoken_again,
        "runs": [first, second],
        "summary": written["summary"],
        "samples": info.frames,
        "samples_expected": round(max(cue.end for cue in cues) * info.samplerate),
        "hours": round(info.frames / info.samplerate / 3600, 2),
    }
    print(json.dumps({**table, "runs": [{**row, "memory": "…"} for row in (first, second)]}, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(table, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
