"""Forced alignment against boundaries set by hand, compared with pocketsphinx.

    python benchmarks/alignment.py --timit ../shared/timit-dev

TIMIT in any layout (…/speaker/sentence.wav with .phn, .wrd, .txt beside it; capital letters too). Word boundaries are
the starts and ends of all words of `.wrd`. Phone boundaries are compared after the usual folding (closures joined to
their stops, silences merged, glottal stops counted as silence), where both sequences agree on which phones there are.
Some distributions of TIMIT have lost bytes (CR LF became LF), which is loud noise; the aligner puts them back, and they
are put back for pocketsphinx too. With flite installed, also a voice that is not in the training data, whose
boundaries are known exactly.

Prints a table and writes JSON; 95 % intervals from 1,000 bootstrap resamples of recordings, seed 0.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clock_attention.speech.aligner import AlignedInterval, Aligner, AlignmentError
from clock_attention.speech.aligner.phone_classes import FROM_ARPABET, VOWELS, plain
from clock_attention.speech.audio.crlf_repair import repaired
from clock_attention.speech.audio.sound_reading import load_audio

RATE = 16000
# fmt: off
FOLDED = {
    **FROM_ARPABET, "hv": "h", "nx": "n", "eng": "ŋ", "em": "m", "en": "n", "el": "l", "ax-h": "ə",
    "h#": "", "pau": "", "epi": "", "q": "",
    "bcl": "b", "dcl": "d", "gcl": "ɡ", "pcl": "p", "tcl": "t", "kcl": "k",
}
# fmt: on
CLOSURES = {"bcl": ("b",), "dcl": ("d", "jh"), "gcl": ("g",), "pcl": ("p",), "tcl": ("t", "ch"), "kcl": ("k",)}
Span = tuple[str, float, float]  # label, start, end in seconds


@dataclass
class Recording:
    name: str
    wave: np.ndarray
    text: str
    words: list[Span]
    phones: list[Span]


@dataclass
class Errors:
    """Absolute errors in ms, one list per recording, so that recordings can be resampled."""

    words: list[list[float]] = field(default_factory=list)
    phones: list[list[float]] = field(default_factory=list)


def timit(folder: Path, limit: int | None = None) -> list[Recording]:
    found, damaged = [], 0
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() == ".phn")
    for path in files[:limit]:
        beside = {other.suffix.lower(): other for other in path.parent.iterdir() if other.stem == path.stem}
        text = beside[".txt"].read_text().split(maxsplit=2)[2].strip()
        words = read_spans(beside[".wrd"])
        phones = folded(read_spans(path))
        wave, lost = repaired(load_audio(beside[".wav"], RATE))
        damaged += lost > 0
        found.append(Recording(f"{path.parent.name}/{path.stem}", wave, text, words, phones))
    if damaged:
        print(f"{damaged} of {len(found)} recordings had lost bytes in a transfer in text mode; they were put back")
    if not found:
        raise SystemExit(f"{folder}: no .phn files there, expected TIMIT's folders")
    return found


def read_spans(path: Path) -> list[Span]:
    rows = [line.split() for line in path.read_text().splitlines() if line.strip()]
    return [(row[2].lower(), int(row[0]) / RATE, int(row[1]) / RATE) for row in rows]


def folded(spans: list[Span]) -> list[Span]:
    """Closures joined to their stops, silences merged, in the classes of the aligner."""
    out: list[Span] = []
    closure = ""
    for label, start, end in spans:
        name = FOLDED[label]
        if out and (label in CLOSURES.get(closure, ()) or (name == "" and out[-1][0] == "")):
            out[-1] = (name, out[-1][1], end)
        else:
            out.append((name, start, end))
        closure = label if label in CLOSURES else ""
    return out


def phone_spans(phones: tuple[AlignedInterval, ...]) -> list[Span]:
    """The aligner's phones in its classes, with r-coloured vowels as one."""
    out: list[Span] = []
    for phone in phones:
        name = plain(phone.label) if phone.label else ""
        if name == "ɹ" and out and out[-1][0] in ("ɜ", "ə"):
            out[-1] = ("ɜ", out[-1][1], phone.end)
        else:
            out.append((name, phone.start, phone.end))
    return out


def kind(name: str) -> str:
    if name in VOWELS:
        return "vowel"
    return {"t": "td", "d": "td", "T": "td", "s": "sz", "z": "sz", "θ": "th", "ð": "th", "n": "n", "ŋ": "n"}.get(
        name, name
    )


def matched(first: list[Span], second: list[Span]) -> list[tuple[int, int]]:
    """Pairs of corresponding phones, by edit distance."""
    cost = np.zeros((len(first) + 1, len(second) + 1))
    cost[:, 0], cost[0] = np.arange(len(first) + 1), np.arange(len(second) + 1)
    for i, (a, *_) in enumerate(first, 1):
        for j, (b, *_) in enumerate(second, 1):
            change = 0.0 if a == b else 0.4 if kind(a) == kind(b) else 1.5
            cost[i, j] = min(cost[i - 1, j - 1] + change, cost[i - 1, j] + 1, cost[i, j - 1] + 1)
    pairs = []
    i, j = len(first), len(second)
    while i and j:
        a, b = first[i - 1][0], second[j - 1][0]
        change = 0.0 if a == b else 0.4 if kind(a) == kind(b) else 1.5
        if np.isclose(cost[i, j], cost[i - 1, j - 1] + change):
            if change < 1:
                pairs.append((i - 1, j - 1))
            i, j = i - 1, j - 1
        elif np.isclose(cost[i, j], cost[i - 1, j] + 1):
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def phone_errors(truth: list[Span], found: list[Span]) -> list[float]:
    """Boundaries between two phones that both sequences have next to each other, in ms."""
    pairs = matched(truth, found)
    return [
        1000 * abs(truth[b][1] - found[d][1])
        for (a, c), (b, d) in itertools.pairwise(pairs)
        if b == a + 1 and d == c + 1
    ]


def word_errors(truth: list[Span], found: list[Span]) -> list[float]:
    """Starts and ends of all words, in ms."""
    truth = joined(truth, found)
    if len(truth) != len(found):
        raise AlignmentError(f"{len(found)} words were found, {len(truth)} are in the recording")
    return [1000 * abs(a[i] - b[i]) for a, b in zip(truth, found, strict=True) for i in (1, 2)]


def joined(truth: list[Span], found: list[Span]) -> list[Span]:
    """Join the parts of a hyphenated word, which TIMIT counts as separate words, into one."""
    out: list[Span] = []
    rest = iter(truth)
    for label, *_ in found:
        whole = letters(label)
        parts = [next(rest, ("", 0.0, 0.0))]
        while (result := "".join(letters(part[0]) for part in parts)) != whole and result and whole.startswith(result):
            if (part := next(rest, None)) is None:
                break
            parts.append(part)
        out.append((label, parts[0][1], parts[-1][2]))
    return out + list(rest)


def letters(word: str) -> str:
    return "".join(character for character in word.lower() if character.isalpha())


def words_of(aligned: Any) -> list[Span]:
    """Words with their times; one that was not found is put where it is missing."""
    present = [(word.label, word.start, word.end) for word in aligned.words if word.label]
    for flag in aligned.flags:
        if flag.kind == "written-not-spoken":
            place = sum(start < flag.start for _, start, _ in present)
            present.insert(place, (flag.word, flag.start, flag.end))
    return present


@cache
def sphinx() -> Any:
    from pocketsphinx import Decoder

    return Decoder(loglevel="FATAL", lm=None)


def sphinx_words(wave: np.ndarray, text: str) -> list[Span]:
    decoder = sphinx()
    words = "".join(c.lower() if c.isalnum() or c in "' " else " " for c in text).split()
    missing = [word for word in words if decoder.lookup_word(word) is None]
    if missing:
        raise AlignmentError(f"{missing[0]} is not in its dictionary")
    decoder.set_align_text(" ".join(words))
    decoder.start_utt()
    decoder.process_raw((wave * 32767).astype("<i2").tobytes(), full_utt=True)
    decoder.end_utt()
    spans = [
        (segment.word, segment.start_frame / 100, (segment.end_frame + 1) / 100)
        for segment in decoder.seg() or []
        if not segment.word.startswith(("<", "["))
    ]
    if len(spans) != len(words):
        raise AlignmentError("no alignment")
    return spans


def interval_of(rows: list[list[float]], statistic: Callable[[np.ndarray], float], seed: int = 0) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    arrays = [np.array(row) for row in rows if row]
    draws = [
        statistic(np.concatenate([arrays[i] for i in rng.integers(0, len(arrays), len(arrays))])) for _ in range(1000)
    ]
    low, high = np.percentile(draws, [2.5, 97.5])
    return {"value": float(statistic(np.concatenate(arrays))), "low": float(low), "high": float(high)}


def summary(rows: list[list[float]]) -> dict[str, Any]:
    return {
        "boundaries": sum(map(len, rows)),
        "mean": interval_of(rows, lambda x: float(x.mean())),
        "median": interval_of(rows, lambda x: float(np.median(x))),
        "within 20 ms": interval_of(rows, lambda x: float(100 * (x <= 20).mean())),
        "within 50 ms": interval_of(rows, lambda x: float(100 * (x <= 50).mean())),
    }


def measure_aligner(aligner: Aligner, recordings: list[Recording]) -> tuple[dict[str, Any], list[Any]]:
    errors, results, failed = Errors(), [], []
    aligner.align(recordings[0].wave, recordings[0].text, sample_rate=RATE)  # compiles
    started = time.process_time()
    for recording in recordings:
        try:
            results.append(aligner.align(recording.wave, recording.text, sample_rate=RATE))
        except AlignmentError as error:
            results.append(None)
            failed.append(f"{recording.name}: {error}")
    seconds = time.process_time() - started
    for recording, aligned in zip(recordings, results, strict=True):
        if aligned is None:
            continue
        try:
            errors.words.append(word_errors(recording.words, words_of(aligned)))
        except AlignmentError as error:
            failed.append(f"{recording.name}: {error}")
        errors.phones.append(phone_errors(recording.phones, phone_spans(aligned.phones)))
    audio = sum(len(recording.wave) for recording in recordings) / RATE
    row = {
        "aligned": len(recordings) - len(failed),
        "failed": failed,
        "words": summary(errors.words),
        "phones": summary(errors.phones),
        "times real time, one core": audio / seconds,
        "flagged words": sum(len(aligned.flags) for aligned in results if aligned),
    }
    return row, results


def measure_sphinx(recordings: list[Recording]) -> dict[str, Any]:
    rows, failed = [], []
    started = time.process_time()
    for recording in recordings:
        try:
            rows.append(word_errors(recording.words, sphinx_words(recording.wave, recording.text)))
        except AlignmentError as error:
            failed.append(f"{recording.name}: {error}")
    seconds = time.process_time() - started
    audio = sum(len(recording.wave) for recording in recordings) / RATE
    row = {"aligned": len(rows), "failed": failed, "words": summary(rows)}
    return {**row, "times real time, one core": audio / seconds}


def measure_wrong_text(aligner: Aligner, recordings: list[Recording], results: list[Any]) -> dict[str, Any]:
    """Each recording with its own text and with that of another recording."""
    right = [aligned.score for aligned in results if aligned]
    wrong, told = [], sum(aligned.fits for aligned in results if aligned)
    for place, recording in enumerate(recordings):
        others = [other for other in recordings[place + 1 :] + recordings[:place] if other.text != recording.text]
        other = others[len(others) // 3]
        try:
            aligned = aligner.align(recording.wave, other.text, sample_rate=RATE)
            wrong.append(aligned.score)
            told += not aligned.fits
        except AlignmentError:
            told += 1
    return {
        "pairs": len(right) + len(recordings),
        "accuracy": 100 * told / (len(right) + len(recordings)),
        "threshold": aligner.model.config.threshold,
        "right, 1st percentile": float(np.percentile(right, 1)),
        "wrong, 99th percentile": float(np.percentile(wrong, 99)),
    }


def measure_changed_text(aligner: Aligner, recordings: list[Recording], results: list[Any]) -> dict[str, Any]:
    """A word is left out of the text, or an extra one is put in: how far do words two or more away move?"""
    rng = np.random.default_rng(0)
    moved: dict[str, list[list[float]]] = {"missing": [], "extra": []}
    vocabulary = sorted({word for recording in recordings for word, *_ in recording.words if len(word) > 3})
    for recording, before in zip(recordings, results, strict=True):
        words = recording.text.split()
        if before is None or len(words) < 5 or len(words_of(before)) != len(words):
            continue
        at = int(rng.integers(1, len(words) - 1))
        texts = {
            "missing": words[:at] + words[at + 1 :],
            "extra": [*words[:at], str(rng.choice(vocabulary)), *words[at:]],
        }
        for name, changed in texts.items():
            after = words_of(aligner.align(recording.wave, " ".join(changed), sample_rate=RATE))
            if len(after) != len(changed):
                continue
            step = -1 if name == "missing" else 1
            rest = [(i, i if i < at else i + step) for i in range(len(words)) if i != at or name == "extra"]
            far = [(i, j) for i, j in rest if abs(i - at) >= 2]
            reference = words_of(before)
            moved[name].append([1000 * abs(reference[i][k] - after[j][k]) for i, j in far for k in (1, 2)])
    return {
        name: {
            "median": interval_of(rows, lambda x: float(np.median(x))),
            "within 20 ms": interval_of(rows, lambda x: float(100 * (x <= 20).mean())),
        }
        for name, rows in moved.items()
    }


def flite_recordings(voice: str, texts: list[str]) -> list[Recording]:
    """Recordings by flite, which prints exact ends of its phones (not of words); none if it is not installed."""
    if shutil.which("flite") is None:
        return []
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.wav"
        for place, text in enumerate(texts):
            command = ["flite", "-voice", voice, "-t", text, "-psdur", "-o", str(path)]
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            names = [FOLDED[item.split(":")[0]] for item in printed]
            ends = [float(item.split(":")[1]) for item in printed]
            phones = list(zip(names, [0.0, *ends], ends, strict=False))
            found.append(Recording(f"{voice}/{place}", load_audio(path, RATE), text, [], phones))
    return found


def measure_flite(aligner: Aligner, voice: str, texts: list[str]) -> dict[str, Any] | None:
    rows = []
    for recording in flite_recordings(voice, texts):
        aligned = aligner.align(recording.wave, recording.text, sample_rate=RATE, posterior=False)
        rows.append(phone_errors(recording.phones, phone_spans(aligned.phones)))
    return {"voice": voice, "sentences": len(texts), "phones": summary(rows)} if rows else None


def shown(row: dict[str, float]) -> str:
    return f"{row['value']:.1f} [{row['low']:.1f}, {row['high']:.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timit", type=Path, required=True)
    parser.add_argument("--model", type=Path, help="another model's folder")
    parser.add_argument("--limit", type=int, help="only so many recordings")
    parser.add_argument("--flite", default="slt", help="a flite voice that is not in the training data")
    parser.add_argument("--quick", action="store_true", help="boundaries of the aligner only")
    parser.add_argument("--out", type=Path, help="where to write JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    recordings = timit(options.timit, options.limit)
    aligner = Aligner.load(options.model)
    row, results = measure_aligner(aligner, recordings)
    report: dict[str, Any] = {"recordings": len(recordings), "aligner": row}
    if not options.quick:
        report["wrong text"] = measure_wrong_text(aligner, recordings, results)
        report["changed text"] = measure_changed_text(aligner, recordings, results)
        report["pocketsphinx"] = measure_sphinx(recordings)
        texts = sorted({recording.text for recording in recordings})
        report["flite"] = measure_flite(aligner, options.flite, texts)
    for name in ("aligner", "pocketsphinx"):
        if name in report:
            found = report[name]
            print(
                f"{name}: {found['aligned']} of {len(recordings)}, {found['times real time, one core']:.0f} × real time"
            )
            for tier in ("words", "phones"):
                if tier in found:
                    print(
                        f"  {tier}: "
                        + ", ".join(f"{k} {shown(v)}" for k, v in found[tier].items() if k != "boundaries")
                    )
            print("  failed:", *found["failed"][:5])
    for name in ("wrong text", "changed text", "flite"):
        if report.get(name):
            print(f"{name}: {json.dumps(report[name])}")
    if options.out:
        options.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
