"""Does every cue keep its slot, every word its duration, and every sentence its words?

    python benchmarks/dub.py --out results/dub.json

words: random words of the subtitles are given random durations. slots: the three files in benchmarks/subtitles
(original text: a documentary, a comedy with short and overlapping lines, a lecture full of numbers) are dubbed, and
compared with their times: samples of the whole, samples and mel frames of every cue, phonemes without a frame.
issues: the sentences of issue_sentences.toml, which other systems were reported to read with words skipped or
repeated, at three paces; skips and repeats are those of the alignment. timeline: the voice speaks with the times that
the aligner finds in recordings. These four are about time, which no vocoder changes, and use one that is silent.
heard: a recognizer listens to a random sample of the cues, in their slots and at natural pace, through the voice's
vocoder.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from rich.console import Console

from clock_attention.evaluation.scoring.error_rates import difference, normalize_transcript, score_sentences
from clock_attention.evaluation.scoring.recognizers import load_recognizer
from clock_attention.evaluation.scoring.skips_and_repeats import measure_alignment
from clock_attention.speech.dubbing.slot import Delivery
from clock_attention.speech.dubbing.subtitles import read_subtitles
from clock_attention.speech.dubbing.track import DubOptions, dub
from clock_attention.speech.text.phonemes import PAUSES, WORD_BOUNDARY
from clock_attention.speech.voice.speech import Speech
from clock_attention.speech.voice.utterance import alignment_matrix
from clock_attention.speech.voice.voice import Voice

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
FILES = ("documentary.srt", "dialogue.srt", "lecture.vtt")
PARTS = ("words", "issues", "slots", "timeline", "heard")
PACES = (0.7, 1.0, 1.5)
READABLE = 1.3  # pace up to which cues are compared with natural speech
console = Console(stderr=True)


class Silent:
    """A silent vocoder, for questions about time alone."""

    name, fingerprint = "silent", "silent"

    def __init__(self, voice: Voice) -> None:
        self.mel = voice.language.mel

    def __call__(self, mel: torch.Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
        return np.zeros(len(mel) * self.mel.hop_length, np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voice", default="default")
    parser.add_argument("--vocoder", default="auto")
    parser.add_argument("--recognizer", default="moonshine")
    parser.add_argument("--requests", type=int, default=100, help="random words with random durations")
    parser.add_argument("--cues", type=int, default=10_000, help="cues that a recognizer listens to")
    parser.add_argument("--recordings", type=int, default=20, help="of the teacher, for timelines")
    parser.add_argument("--file", action="append", choices=FILES, help="measure the slots of this one; may be repeated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--out", type=Path, help="parts that are not measured now keep what the file says")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    voice = Voice.load(arguments.voice)
    results: dict[str, Any] = {}
    if arguments.out is not None and arguments.out.is_file():
        results = json.loads(arguments.out.read_text("utf-8"))
    results["seed"] = arguments.seed
    measure = {
        "words": lambda: word_requests(voice, arguments.requests, arguments.seed),
        "issues": lambda: issue_sentences(voice),
        "slots": lambda: all_slots(voice, arguments.file or FILES, results.get("slots", [])),
        "timeline": lambda: timelines(voice, arguments.recordings),
    }

    def save(part: str, found: Any) -> None:
        results[part] = found
        if arguments.out is not None:
            text = json.dumps(results, ensure_ascii=False, indent=1) + "\n"
            arguments.out.write_text(text, encoding="utf-8")

    for part in arguments.part or PARTS:
        if part == "heard":
            for found in transcribed(voice, arguments, results["slots"], results.get("heard", {}).get("cues", [])):
                save(part, found)
        else:
            save(part, measure[part]())
        console.print(part, shown(results[part]))


def shown(found: Any) -> Any:
    if isinstance(found, list):
        return [shown(row) for row in found]
    return {key: value for key, value in found.items() if not isinstance(value, list)}


def all_slots(voice: Voice, names: Sequence[str], known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Slots of these files; known results of other files are kept."""
    rows = {row["file"]: row for row in known} | {name: slots(voice, name) for name in names}
    return [rows[name] for name in FILES if name in rows]


def slots(voice: Voice, name: str) -> dict[str, Any]:
    """One file, dubbed and measured."""
    cues = read_subtitles(HERE / "subtitles" / name)
    rate, hop = voice.language.mel.sample_rate, voice.language.mel.hop_length
    delivery = Delivery()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        options = DubOptions(voice=str(voice.path), vocoder=Silent(voice), delivery=delivery, stems=folder / "stems")
        reports = dub(cues, folder / "out.wav", options)
        whole = soundfile.info(folder / "out.wav").frames
        stems = [soundfile.info(options.stems / report.file).frames if report.file else None for report in reports]
    wrong_slots = wrong_frames = 0
    for cue, report, found in zip(cues, reports, stems, strict=True):
        if found is None:
            continue
        samples = round(cue.end * rate) - round(cue.start * rate)
        wrong_slots += found != samples
        # Speech is not stretched beyond the slowest pace: there the length is that pace's, to the frame.
        slow = int(np.ceil(report.natural_seconds * rate / hop / delivery.slowest - 1e-6))
        wrong_frames += report.spoken_frames not in (samples // hop, slow)
    paces = sorted(report.pace for report in reports if report.words)
    return {
        "file": name,
        "cues": len(cues),
        "spoken": sum(bool(report.file) for report in reports),
        "too_fast": sum(report.status == "too fast" for report in reports),
        "empty": sum(report.status == "empty" for report in reports),
        "overlapping": sum(report.overlaps for report in reports),
        "median_pace": round(float(np.median(paces)), 3),
        "fastest_pace": round(paces[-1], 3),
        "wrong_length": int(whole != round(max(cue.end for cue in cues) * rate)),
        "wrong_slots": int(wrong_slots),
        "wrong_frames": int(wrong_frames),
        "words": sum(report.words for report in reports),
        "phonemes_without_frame": sum(report.skipped for report in reports),
        "reports": [asdict(replace(report, file="")) for report in reports],
    }


def transcribed(
    voice: Voice, arguments: argparse.Namespace, files: list[dict[str, Any]], known: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Word error of cues in their slots and at natural pace, and the paired difference; yielded after every cue.

    Cues that were heard before are not spoken again.
    """
    spoken = [report for row in files for report in row["reports"] if normalize_transcript(report["text"])]
    spoken = [report for report in spoken if report["spoken_frames"]]
    random.Random(arguments.seed).shuffle(spoken)
    listener = load_recognizer(arguments.recognizer, threads=1)
    vocoder = voice.vocoder(arguments.vocoder)
    before = {(cue["text"], cue["pace"]): cue for cue in known}
    cues = []
    for report in spoken[: arguments.cues]:
        pace = round(report["pace"], 3)
        if (report["text"], pace) in before:
            cues.append(before[report["text"], pace])
        else:
            seconds = report["spoken_frames"] / voice.frames_per_second
            slot = voice.speak(report["text"], duration=seconds, pause=Delivery().pause, vocoder=vocoder)
            natural = voice.speak(report["text"], pause=Delivery().pause, vocoder=vocoder)
            row = {"text": report["text"], "pace": pace}
            row["heard"] = listener.transcribe(slot.audio, slot.sample_rate)
            row["heard_natural"] = listener.transcribe(natural.audio, natural.sample_rate)
            cues.append(row)
        found: dict[str, Any] = {"recognizer": listener.name, "vocoder": vocoder.name, "all_cues": len(spoken)}
        for name, chosen in (
            ("readable", [cue for cue in cues if cue["pace"] <= READABLE]),
            ("faster", [cue for cue in cues if cue["pace"] > READABLE]),
        ):
            if chosen:
                found[name] = compared(chosen)
        yield found | {"cues": cues}


def compared(cues: list[dict[str, Any]]) -> dict[str, Any]:
    texts = [cue["text"] for cue in cues]
    slot, natural = (score_sentences(texts, [cue[key] for cue in cues]) for key in ("heard", "heard_natural"))
    return {
        "cues": len(cues),
        "slot": asdict(slot.wer),
        "natural": asdict(natural.wer),
        "difference": asdict(difference(slot, natural)),
    }


def word_requests(voice: Voice, count: int, seed: int) -> dict[str, Any]:
    """Random words with random durations; the rest keeps its pace or the total."""
    draw = random.Random(seed)
    vocoder = Silent(voice)
    texts = [
        cue.text for name in FILES for cue in read_subtitles(HERE / "subtitles" / name) if len(cue.text.split()) > 3
    ]
    exact = totals = kept = 0
    worst = 0
    for _ in range(count):
        text = draw.choice(texts)
        natural = voice.speak(text, vocoder=vocoder)
        number = draw.randrange(len(natural.words))
        keep = draw.choice(("pace", "total"))
        word = natural.words[number]
        phonemes = natural.phonemes.word_index.count(number)
        frames = max(round(length(natural, word) * draw.uniform(0.6, 2.0)), phonemes)
        seconds = frames * natural.alignment.frame_seconds
        speech = voice.speak(text, vocoder=vocoder, words={number: {"duration": seconds}}, keep=keep)
        off = abs(length(speech, speech.words[number]) - frames)
        worst = max(worst, off)
        exact += off == 0
        if keep == "total":
            totals += 1
            kept += len(speech.mel) == len(natural.mel)
    return {"requests": count, "exact": exact, "worst_frames": worst, "total_asked": totals, "total_kept": kept}


def length(speech: Speech, word: Any) -> int:
    return round((word.end - word.start) / speech.alignment.frame_seconds)


def timelines(voice: Voice, sentences: int) -> dict[str, Any]:
    """The aligner's times of a recording, and those of speech that was asked to reproduce them."""
    from clock_attention.speech.aligner import Aligner
    from clock_attention.speech.corpus.teacher import TEACHER_RATE, Teacher, TeacherPhrase

    try:
        aligner = Aligner.load()
    except ValueError as error:
        return {"skipped": str(error).split(": ", 1)[-1][:80]}
    teacher = Teacher()
    texts = [cue.text for cue in read_subtitles(HERE / "subtitles" / FILES[0])][:sentences]
    moved = []
    words = 0
    for text in texts:
        wave = teacher(TeacherPhrase(id="", group="", text=text, speed=1.0, seed=0))
        recording = aligner.align(np.asarray(wave, np.float32), text, sample_rate=TEACHER_RATE)
        speech = voice.speak(text, vocoder=Silent(voice), timeline=recording)
        found = [word for word in recording.words if word.label]
        words += len(found)
        for asked, spoken in zip(found, speech.words, strict=True):
            moved.append(max(abs(asked.start - spoken.start), abs(asked.end - spoken.end)) * voice.frames_per_second)
    return {
        "recordings": len(texts),
        "words": words,
        "within_one_frame": int((np.array(moved) <= 1).sum()),
        "worst_frames": round(float(max(moved)), 2),
    }


def issue_sentences(voice: Voice) -> list[dict[str, Any]]:
    with open(HERE / "issue_sentences.toml", "rb") as file:
        sentences = tomllib.load(file)["sentence"]
    rows = []
    for pace in PACES:
        skips = repeats = words = phonemes = without = 0
        for sentence in sentences:
            speech = voice.speak(sentence["text"], pace=pace, vocoder=Silent(voice))
            for utterance in speech.utterances:
                found = measure_alignment(alignment_matrix(utterance.weights), utterance.phonemes)
                skips += int(found["word_skips_in_mean"])
                repeats += int(found["word_repeats"])
                words += int(found["words"])
            for token, frames in zip(speech.phonemes.tokens, speech.alignment.durations, strict=True):
                if token not in PAUSES and token != WORD_BOUNDARY:
                    phonemes += 1
                    without += int(frames == 0)
        row = {"pace": pace, "sentences": len(sentences), "words": words, "skips": skips, "repeats": repeats}
        rows.append(row | {"phonemes": phonemes, "phonemes_without_frame": without})
    return rows


if __name__ == "__main__":
    main()
