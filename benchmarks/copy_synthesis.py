"""What do vocoders lose? Recordings → mel → wave, scored beside the recordings themselves.

    python benchmarks/copy_synthesis.py --sentences harvard.txt --recordings LJSPEECH_LIKE_FOLDER --timit DIR --count 12

Sentences are read by the synthetic teacher (seed 1), evenly spaced in the file; recordings are evenly spaced among the
last 100 of a folder, which the vocoder in the package was not trained on; sentences of TIMIT evenly from all its
speakers, who are not in its training data. Predicted opinions (DistillMOS, DNSMOS), PESQ and STOI against the
recording, WER of Moonshine, L1 between log-mels, and seconds of CPU for a second of sound on one thread. Means with
95 % intervals (1.96 standard errors).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pesq import pesq
from pystoi import stoi

from clock_attention.evaluation.scoring.opinion import DistillMos, Dnsmos
from clock_attention.speech.audio.crlf_repair import repaired
from clock_attention.speech.audio.mel import MelConfig, MelSpectrogram
from clock_attention.speech.audio.sound_reading import load_audio
from clock_attention.speech.audio.wave import Wave, resample
from clock_attention.speech.corpus.teacher import TEACHER_RATE, Teacher, TeacherPhrase
from clock_attention.speech.vocoder.vocoder import load_vocoder

MEL = MelConfig.preset("hifigan")
HELD_OUT = 100


def evenly(items: list[Any], count: int) -> list[Any]:
    return [items[i * len(items) // count] for i in range(min(count, len(items)))]


def teacher_sentences(file: Path, count: int) -> list[tuple[str, Wave]]:
    teacher, found = Teacher(), []
    for text in evenly([line.strip() for line in file.read_text("utf-8").splitlines() if line.strip()], count):
        wave = teacher(TeacherPhrase("", "", text, 1.0, 1))
        found.append((text, resample(wave, TEACHER_RATE, MEL.sample_rate)))
    return found


def human_recordings(folder: Path, count: int) -> list[tuple[str, Wave]]:
    rows = [line.split("|") for line in (folder / "metadata.csv").read_text("utf-8").splitlines()]
    texts = {row[0]: row[-1] for row in rows}
    files = sorted(file for file in (folder / "wavs").iterdir() if file.stem in texts)[-HELD_OUT:]
    return [(texts[file.stem], load_audio(file, MEL.sample_rate)) for file in evenly(files, count)]


def other_speakers(folder: Path, count: int) -> list[tuple[str, Wave]]:
    """Sentences of TIMIT, 16 kHz; damaged files are repaired first."""
    found = []
    for file in evenly(sorted(file for file in folder.rglob("*.wav") if file.name.startswith("s")), count):
        wave, _ = repaired(load_audio(file, 16000))
        text = " ".join(file.with_suffix(".txt").read_text("utf-8").split()[2:])
        found.append((text, resample(wave, 16000, MEL.sample_rate)))
    return found


def interval(values: list[float]) -> list[float]:
    return [float(np.mean(values)), float(1.96 * np.std(values, ddof=1) / np.sqrt(len(values)))]


class Scores:
    def __init__(self) -> None:
        from clock_attention.evaluation.scoring.recognizers import load_recognizer

        self.distillmos, self.dnsmos = DistillMos(), Dnsmos()
        self.recognizer = load_recognizer("moonshine")
        self.mel = MelSpectrogram(MEL)

    def __call__(self, text: str, original: Wave, wave: Wave) -> dict[str, Any]:
        rate = MEL.sample_rate
        true, made = resample(original, rate, 16000), resample(wave, rate, 16000)
        return {
            "distillmos": self.distillmos(wave, rate)["mos"],
            "dnsmos": self.dnsmos(wave, rate)["ovrl"],
            "pesq": float(pesq(16000, true, made, "wb")),
            "stoi": float(stoi(true, made, 16000)),
            "mel": float((self.mel(wave) - self.mel(original)).abs().mean()),
            "said": (text, self.recognizer.transcribe(wave, rate)),
        }


def word_error_rate(rows: list[dict[str, Any]]) -> float:
    import jiwer
    from whisper_normalizer.english import EnglishTextNormalizer

    clean = EnglishTextNormalizer()
    return float(jiwer.wer([clean(row["said"][0]) for row in rows], [clean(row["said"][1]) for row in rows]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=Path, help="text file for the teacher, one sentence a line")
    parser.add_argument("--recordings", type=Path, help="folder with metadata.csv and wavs/")
    parser.add_argument("--timit", type=Path, help="folder of TIMIT: speakers not in the training data")
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--vocoders", nargs="+", default=["hifigan", "fast", "griffin-lim"])
    parser.add_argument("--out", type=Path, default=Path("out/copy_synthesis.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    scores, mel = Scores(), MelSpectrogram(MEL)
    sources = {}
    if arguments.sentences:
        sources["teacher"] = teacher_sentences(arguments.sentences, arguments.count)
    if arguments.recordings:
        sources["human"] = human_recordings(arguments.recordings, arguments.count)
    if arguments.timit:
        sources["others"] = other_speakers(arguments.timit, arguments.count)
    results: dict[str, Any] = {}
    for source, utterances in sources.items():
        waves = [(text, wave[: len(wave) // MEL.hop_length * MEL.hop_length]) for text, wave in utterances]
        for name in ["recording", *arguments.vocoders]:
            vocoder = None if name == "recording" else load_vocoder(name, MEL)
            rows, spent = [], []
            for text, wave in waves:
                made = wave
                if vocoder is not None:
                    frames = mel(wave)
                    began = time.process_time()
                    made = vocoder(frames)[: len(wave)]
                    spent.append((time.process_time() - began) / (len(wave) / MEL.sample_rate))
                    made = np.pad(made, (0, len(wave) - len(made)))
                rows.append(scores(text, wave, made))
            table: dict[str, Any] = {
                key: interval([row[key] for row in rows]) for key in ("distillmos", "dnsmos", "pesq", "stoi", "mel")
            }
            table |= {"wer": word_error_rate(rows), "count": len(rows)}
            table["cpu"] = float(np.median(spent)) if spent else 0.0
            results.setdefault(source, {})[name] = table
            print(source, name, {k: np.round(v, 3).tolist() for k, v in table.items()}, flush=True)
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
