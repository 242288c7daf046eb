"""Speech with known or findable phone boundaries, to train the aligner on: `python benchmarks/aligner_speech.py OUT …`.

Sources, one shard (.npz) each:

- flite's voices (`apt install flite`): exact phone ends;
- Festival's diphone voice ked (`apt install festival festvox-kdlpc16k`): exact phone ends;
- hibari, SVOX Pico and eSpeak NG voices, and recordings of a person in LJSpeech's layout: text only, boundaries
  found by realignment during training.

A shard holds 16 kHz int16 samples end to end, and for every utterance its transcript as class numbers with the time at
which each ends (NaN where it is not known).
"""

from __future__ import annotations

import argparse
import random
import subprocess
import tempfile
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from clock_attention.speech.aligner.phone_classes import FROM_ARPABET, PLACE, VOWELS
from clock_attention.speech.audio.sound_reading import load_audio
from clock_attention.speech.audio.wave import resample

RATE = 16000
FLAP_SECONDS = 0.05
Utterance = tuple[np.ndarray, str, list[int], list[float]]  # samples, text, classes, ends in seconds


def sentences(path: Path, shortest: int = 20, longest: int = 130) -> list[str]:
    """The last column of a table, or the lines of a text, of a length that is quick to train on."""
    texts = [line.split("|")[-1].strip() for line in path.read_text("utf-8").splitlines()]
    return [text for text in texts if shortest <= len(text) <= longest and text.isascii()]


def flapped(names: list[str], ends: list[float]) -> list[str]:
    """A short t or d between vowels is a flap, though ARPAbet dictionaries do not write it."""
    out = list(names)
    for i in range(1, len(names) - 1):
        short = ends[i] - ends[i - 1] < FLAP_SECONDS
        if names[i] in ("t", "d") and names[i - 1] in (*VOWELS, "ɹ") and names[i + 1] in VOWELS and short:
            out[i] = "T"
    return out


def labelled(samples: np.ndarray, text: str, names: list[str], ends: list[float]) -> Utterance:
    return samples, text, [PLACE[name] for name in flapped(names, ends)], ends


def read_wav(path: Path) -> np.ndarray:
    with wave.open(str(path)) as file:
        rate, samples = file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return resample(samples.astype(np.float32) / 32768, rate, RATE)


def flite(voice: str, texts: list[str], rng: random.Random) -> Iterator[Utterance]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.wav"
        for text in texts:
            command = ["flite", "-voice", voice, "--setf", f"duration_stretch={rng.uniform(0.75, 1.25):.2f}"]
            command += ["-t", text, "-psdur", "-o", str(path)]
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            names = [FROM_ARPABET[item.rsplit(":")[0]] for item in printed]
            yield labelled(read_wav(path), text, names, [float(item.rsplit(":")[1]) for item in printed])


def festival(voice: str, texts: list[str], rng: random.Random) -> Iterator[Utterance]:
    with tempfile.TemporaryDirectory() as folder:
        script = [f"(voice_{voice})"]
        for number, text in enumerate(texts):
            clean = text.replace('"', "").replace("\\", "")
            script += [f"(Parameter.set 'Duration_Stretch {rng.uniform(0.75, 1.2):.2f})"]
            script += [f'(set! u (SynthText "{clean}"))', f'(utt.save.segs u "{folder}/{number}.lab")']
            script += [f'(utt.save.wave u "{folder}/{number}.wav" \'riff)']
        (Path(folder) / "all.scm").write_text("\n".join(script))
        subprocess.run(["festival", "-b", f"{folder}/all.scm"], capture_output=True, check=False)
        for number, text in enumerate(texts):
            label = Path(folder) / f"{number}.lab"
            if not label.exists() or not label.with_suffix(".wav").exists():
                continue
            rows = [line.split() for line in label.read_text().splitlines() if len(line.split()) == 3]
            names = [FROM_ARPABET[row[2]] for row in rows]
            yield labelled(read_wav(label.with_suffix(".wav")), text, names, [float(row[0]) for row in rows])


def unlabelled(samples: np.ndarray, text: str) -> Utterance:
    return samples, text, [], []


def hibari(texts: list[str], rng: random.Random) -> Iterator[Utterance]:
    from clock_attention.speech.corpus.teacher import TEACHER_RATE, Teacher, TeacherPhrase

    teacher = Teacher()
    for number, text in enumerate(texts):
        samples = teacher(TeacherPhrase(str(number), "", text, rng.uniform(0.85, 1.25), number))
        yield unlabelled(resample(samples, TEACHER_RATE, RATE), text)


def espeak(voices: list[str], texts: list[str], rng: random.Random) -> Iterator[Utterance]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.wav"
        for number, text in enumerate(texts):
            voice = voices[number % len(voices)]
            command = ["espeak-ng", "-v", voice, "-s", str(rng.randint(130, 190)), "-p", str(rng.randint(25, 75))]
            subprocess.run([*command, "-w", str(path), text], check=True)
            yield unlabelled(read_wav(path), text)


def pico(program: str, voices: list[str], texts: list[str]) -> Iterator[Utterance]:
    """`program VOICE OUT.wav TEXT` of the SVOX Pico engine."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.wav"
        for number, text in enumerate(texts):
            subprocess.run([program, voices[number % len(voices)], str(path), text], check=True)
            yield unlabelled(read_wav(path), text)


def ljspeech(folder: Path) -> Iterator[Utterance]:
    for line in (folder / "metadata.csv").read_text("utf-8").splitlines():
        name, *columns = line.split("|")
        found = next((folder / "wavs").glob(f"{name}.*"))
        yield unlabelled(load_audio(found, RATE), columns[-1])


def write_shard(path: Path, utterances: Iterator[Utterance]) -> None:
    waves, texts, classes, ends, samples, phones = [], [], [], [], [0], [0]
    for audio, text, names, times in utterances:
        if len(audio) < 0.3 * RATE:
            continue
        waves.append((np.clip(audio, -1, 1) * 32767).astype(np.int16))
        texts.append(text)
        classes += names
        ends += times
        samples.append(samples[-1] + len(audio))
        phones.append(len(classes))
    np.savez(
        path,
        wave=np.concatenate(waves),
        texts=np.array(texts),
        samples=samples,
        phones=phones,
        classes=np.array(classes, np.int16),
        ends=np.array(ends, np.float32),
    )
    print(f"{path.name}: {len(texts)} utterances, {samples[-1] / RATE / 3600:.2f} h", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "sources", nargs="+", help="flite:VOICE, festival:VOICE, hibari, espeak:V,V…, pico:V,V…, or a folder"
    )
    parser.add_argument("--text", type=Path, required=True, help="sentences: one a line, or LJSpeech's metadata.csv")
    parser.add_argument("--count", type=int, default=700, help="sentences of each source")
    parser.add_argument("--pico", default="pico2wave", help="program for pico: called with VOICE OUT.wav TEXT")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    texts = sentences(options.text)
    for source in options.sources:
        rng = random.Random(f"{options.seed} {source}")
        kind, _, name = source.partition(":")
        chosen = rng.sample(texts, min(options.count, len(texts)))
        if kind == "flite":
            utterances = flite(name, chosen, rng)
        elif kind == "festival":
            utterances = festival(name, chosen, rng)
        elif kind == "hibari":
            utterances = hibari(chosen, rng)
        elif kind == "espeak":
            utterances = espeak(name.split(","), chosen, rng)
        elif kind == "pico":
            utterances = pico(options.pico, name.split(","), chosen)
        else:
            utterances = ljspeech(Path(source))
        label = Path(source).name if kind == source and "/" in source else source.split(",")[0].replace(":", "_")
        write_shard(options.out / f"{label}.npz", utterances)


if __name__ == "__main__":
    main()
