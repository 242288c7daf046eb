"""Long sentences, questions, pauses, onsets and difficult inputs of a voice; benchmarks/sound_cost.py has its cost.

    python benchmarks/sound_bars.py long --texts harvard_720.txt            # whole sentences of 100 … 200 phonemes
    python benchmarks/sound_bars.py questions                               # does "?" rise?
    python benchmarks/sound_bars.py pauses                                  # where punctuation is, and nowhere else
    python benchmarks/sound_bars.py onsets --texts harvard_720.txt          # timestamps against what is heard
    python benchmarks/sound_bars.py hard --whisper FOLDER                   # skips and repeats, by two recognizers

Each writes its part of results/sound_bars.json.
"""

from __future__ import annotations

import argparse
import json
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sound import teacher_wave
from sound_cost import write_part

from clock_attention.evaluation.pipeline.evaluate import phones
from clock_attention.evaluation.prompts import load_prompts, read_prompts
from clock_attention.evaluation.scoring.bootstrap import mean_with_interval
from clock_attention.evaluation.scoring.error_rates import normalize_transcript, require_words, score_sentences
from clock_attention.evaluation.scoring.opinion import load_predictor
from clock_attention.evaluation.scoring.pitch_measures import final_pitch
from clock_attention.evaluation.scoring.recognizers import Moonshine, PocketSphinx, load_recognizer
from clock_attention.evaluation.scoring.unheard_words import phones_heard, words_not_in
from clock_attention.speech.aligner import Aligner
from clock_attention.speech.audio.pitch import log_pitch
from clock_attention.speech.text.phonemes import PAUSES, WORD_BOUNDARY
from clock_attention.speech.voice.speech import Speech
from clock_attention.speech.voice.voice import Voice

SILENT_DB = 40.0  # below the loudest 10 ms
QUESTIONS = (
    "You are coming home tonight", "She sold the old house", "They left without him", "It is raining again",
    "He can swim", "We have enough money", "The train is late", "You have seen this before", "The door was open",
    "Your brother plays the piano", "The shop closes at nine", "You like strong coffee", "He lost his keys",
    "The meeting is on Monday", "She knows the answer", "There is more water", "You were at the party",
    "The children are asleep", "It works now", "That is your final offer",
)  # fmt: skip
STORY = """\
The morning was cold, and a thin mist lay over the river. Martha closed the gate behind her, pulled her collar up, and
walked quickly down the lane towards Mill Street and the market. Nobody else was awake. A dog barked once, somewhere
beyond the church; then it was quiet again.

She had three things to do: buy flour, collect the lamp from the smith, and post the letter. The letter was the
difficult part. For two weeks it had waited on the kitchen shelf, sealed and addressed, while she found one reason after
another to leave it there. Today, however, she had put it into her basket first, under the cloth, where she could not
forget it.

At the corner she met old Mr. Dunn, who was sweeping the steps of the bakery. "You are early," he said. "So are you,"
she answered. He laughed, leaned his broom against the wall, and asked whether her sister had written. Martha shook her
head. What could she tell him? That the letter in her basket was the fifth one, and that the other four had never been
answered? She wished him a good day and went on.

The post office opened at eight. It was ten minutes to. She sat down on the bench outside, put the basket on her knees,
and watched the light come up over the roofs. A cart rolled past, then another. When the clerk unlocked the door, she
was still sitting there. He looked at her, he looked at the basket, and he smiled. "Will it be the usual?" he asked.
"Yes," said Martha, "but this time I would like it to go by the fast train." She paid, thanked him, and walked home
without looking back. In the evening, for the first time that winter, she slept well.
"""


class Mute:
    """Stand-in for a vocoder where only timing matters."""

    name = fingerprint = "mute"

    def __init__(self, voice: Voice) -> None:
        self.mel = voice.language.mel

    def __call__(self, mel: torch.Tensor) -> np.ndarray[Any, Any]:
        return np.zeros(len(mel) * self.mel.hop_length, np.float32)


def long(voice: Voice, vocoder: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Sentences of 100 … 200 phonemes in one piece, beside the teacher: several prompts joined by commas."""
    chosen = long_texts(voice, some(arguments, 6 * arguments.count))[: arguments.count]
    rate = voice.language.mel.sample_rate
    recognizer, judge = load_recognizer("moonshine"), load_predictor("distillmos")
    out: dict[str, Any] = {"sentences": len(chosen), "seed": arguments.seed}
    for name in ("voice", "teacher"):
        output, opinions, pieces = [], [], 0
        for text in chosen:
            if name == "voice":
                spoken = voice.speak(text, vocoder=vocoder)
                pieces += len(spoken.utterances)
                wave = spoken.audio
            else:
                wave = teacher_wave(text, rate)
            output.append(recognizer.transcribe(wave, rate))
            opinions.append(judge(wave, rate)["mos"])
        wer = score_sentences(chosen, output).wer
        out[name] = {"wer": [wer.estimate, wer.low, wer.high], "distillmos": mean_with_interval(opinions)}
        if pieces:
            out[name]["pieces"] = pieces
    return out


def some(arguments: argparse.Namespace, count: int) -> list[str]:
    """Prompts in random order."""
    texts = [prompt.text for prompt in read_prompts(arguments.texts)]
    return [texts[place] for place in np.random.default_rng(arguments.seed).permutation(len(texts))[:count]]


def long_texts(voice: Voice, sentences: list[str]) -> list[str]:
    """Sentences joined to texts of between 100 and 200 phonemes, of varied length."""
    found: list[str] = []
    text, wanted = "", 0
    for sentence in sentences:
        wanted = wanted or 100 + 17 * (len(found) % 5)
        start = sentence if not text else sentence if sentence.startswith("I ") else sentence[0].lower() + sentence[1:]
        text = f"{text}, {start.rstrip('.!?')}" if text else start.rstrip(".!?")
        if len(voice.phonemizer(text)) >= wanted:
            if len(voice.phonemizer(text)) <= 200:
                found.append(f"{text}.")
            text, wanted = "", 0
    return found


def questions(voice: Voice, vocoder: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Final pitch of the same words with "?" minus with "."; the last 10 voiced frames (0.12 s)."""
    mel = voice.language.mel

    def rise(speak: Any) -> list[float]:
        ends = [[final_pitch(log_pitch(speak(f"{text}{mark}"), mel), 10) for mark in "?."] for text in QUESTIONS]
        return [ask - tell for ask, tell in ends]

    ours = rise(lambda text: voice.speak(text, vocoder=vocoder).audio)
    theirs = rise(lambda text: teacher_wave(text, mel.sample_rate))
    return {
        name: {
            "semitones": mean_with_interval(rises),
            "at least 2": int((np.array(rises) >= 2).sum()),
            "of": 20,
        }
        for name, rises in (("voice", ours), ("teacher", theirs))
    }


def pauses(voice: Voice, vocoder: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Silences of a story: how many are long, and are they where punctuation is?"""
    spoken = voice.speak(STORY, vocoder=Mute(voice))
    marked, plain, empty = [], [], []
    level = spoken.mel.mean(1).numpy()
    loud = level > np.percentile(level, 95) - SILENT_DB / 8.686
    tokens = zip(spoken.alignment.labels, spoken.alignment.starts, spoken.alignment.durations, strict=True)
    for between, run in groupby(tokens, key=lambda token: token[0] in PAUSES or token[0] == WORD_BOUNDARY):
        gap = list(run)  # one blank between two words, of one token or several
        start, count = gap[0][1], sum(int(token[2]) for token in gap)
        if not between or start == 0 or start + count >= len(level):
            continue
        punctuated = any(token[0] in PAUSES for token in gap)
        (marked if punctuated else plain).append(count / voice.frames_per_second)
        if count and not punctuated:
            empty.append(1 - loud[start : start + count].mean())
    silences = quiet_runs(loud, voice.frames_per_second)
    wave = teacher_wave(STORY, voice.language.mel.sample_rate)
    theirs = quiet_runs(heard_frames(wave, voice.language.mel.sample_rate), 100.0)
    return {
        "words": len(STORY.split()),
        "silences of 0.45 s and more": {
            "voice": int((silences >= 0.45).sum()), "teacher": int((theirs >= 0.45).sum())
        },
        "marks": len(marked), "marks with a pause of 0.1 s": int((np.array(marked) >= 0.1).sum()),
        "word boundaries": len(plain), "word boundaries with a pause of 0.1 s": int((np.array(plain) >= 0.1).sum()),
        "longest pause inside a phrase, s": float(max(plain, default=0.0)),
        "silent share of blanks between words": float(np.mean(empty)) if empty else 1.0,
    }  # fmt: skip


def heard_frames(wave: np.ndarray[Any, Any], rate: int) -> np.ndarray[Any, Any]:
    """Which 10 ms are not silence."""
    size = rate // 100
    energy = np.square(wave[: len(wave) // size * size].astype(np.float64)).reshape(-1, size).mean(1)
    return energy > energy.max() * 10 ** (-SILENT_DB / 10)


def quiet_runs(loud: np.ndarray[Any, Any], per_second: float) -> np.ndarray[Any, Any]:
    """Seconds of every silence between sounds."""
    places = np.flatnonzero(loud)
    gaps = np.diff(places) - 1
    return gaps[gaps > 0] / per_second


def onsets(voice: Voice, vocoder: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Where the first word begins in the timestamps and in the sound; and the phantom word before it.

    The phantom is what Moonshine writes with its voice detector, which our evaluation switches off.
    """
    chosen = some(arguments, arguments.count)
    rate, out = voice.language.mel.sample_rate, dict[str, Any]()
    detecting = Moonshine()
    detecting._transcriber = type(detecting._transcriber)(
        model_path=detecting_folder(), model_arch=detecting_model(), options={"max_tokens_per_second": 15.0}
    )
    for pace in (1.0, 0.625):
        late, phantoms = [], 0
        for text in chosen:
            spoken: Speech = voice.speak(text, pace=pace, vocoder=vocoder)
            output = np.flatnonzero(heard_frames(spoken.audio, rate))[0] / 100
            late.append(1000 * (output - spoken.words[0].start))
            if pace == 1.0:
                phantoms += is_phantom(detecting.transcribe(spoken.audio, rate), text)
        found = np.array(late)
        out[f"pace {pace:g}"] = {
            "sound minus timestamp, ms": {"median": float(np.median(found)), "p95": float(np.percentile(found, 95))},
            "sentences": len(found),
        }
        if pace == 1.0:
            out["phantom you"] = {"voice": phantoms, "of": len(chosen)}
    out["phantom you"]["teacher"] = sum(
        is_phantom(detecting.transcribe(teacher_wave(text, rate), rate), text) for text in chosen
    )
    return out


def detecting_folder() -> Path:
    import moonshine_voice

    return Path(moonshine_voice.__file__).parent / "assets" / "tiny-en"


def detecting_model() -> Any:
    import moonshine_voice

    return moonshine_voice.ModelArch.TINY


def is_phantom(output: str, text: str) -> bool:
    first, expected = normalize_transcript(output).split()[:1], require_words(text).split()[:1]
    return first == ["you"] and expected != ["you"]


def hard(voice: Voice, vocoder: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """The list of difficult inputs: words that two recognizers miss and whose phones are not found in their interval.

    The teacher's speech goes through the same check, with intervals from the package's aligner: its counts show the
    limits of the check.
    """
    second = f"whisper:{arguments.whisper}" if arguments.whisper else "pocketsphinx"
    listeners = [load_recognizer(name) for name in ("moonshine", second)]
    out: dict[str, Any] = {"recognizers": [type(one).__name__ for one in listeners]}
    rate, aligner, by_phone = voice.language.mel.sample_rate, Aligner.load(), PocketSphinx(phones=True)
    for name in ("voice", "teacher"):
        words = short = 0
        missed, confirmed = [], []
        for prompt in load_prompts(["hard"]):
            if name == "voice":
                spoken = voice.speak(prompt.text, vocoder=vocoder)
                wave, intervals = spoken.audio, spoken.words
            else:
                wave = teacher_wave(prompt.text, rate)
                intervals = [word for word in aligner.align(wave, prompt.text, sample_rate=rate).words if word.label]
            words += len(intervals)
            short += sum(round((word.end - word.start) * voice.frames_per_second) < 1 for word in intervals)
            labels = [word.label for word in intervals]
            missing = [words_not_in(one.transcribe(wave, rate), labels) for one in listeners]
            missed.append([*map(len, missing), len(missing[0] & missing[1])])
            found = by_phone.timed_phones(wave, rate)
            confirmed += [
                f"{prompt.id}: {labels[place]}"
                for place in sorted(missing[0] & missing[1])
                if not phones_heard(phones(labels[place]).split(), found, intervals[place].start, intervals[place].end)
            ]
        totals = np.sum(missed, axis=0).tolist()
        out[name] = {
            "words": words, "words without time in the alignment": short, "words missed": totals[:2],
            "missed by both": totals[2], "and not heard as phones": len(confirmed), "which": confirmed,
        }  # fmt: skip
    return out


PARTS = {"long": long, "questions": questions, "pauses": pauses, "onsets": onsets, "hard": hard}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--voice", default="default")
    parser.add_argument("--vocoder", default="auto")
    parser.add_argument("--texts", help="prompts: a text file with one sentence a line")
    parser.add_argument("--count", type=int, default=40, help="sentences")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--whisper", help="a Whisper model for the second recognizer; else pocketsphinx")
    parser.add_argument("--out", type=Path, default=Path("results/sound_bars.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    voice = Voice.load(arguments.voice)
    vocoder = voice.vocoder(arguments.vocoder)
    found = {"vocoder": vocoder.name, **PARTS[arguments.part](voice, vocoder, arguments)}
    print(json.dumps(found, indent=1, ensure_ascii=False))
    write_part(arguments.out, arguments.part, found)


if __name__ == "__main__":
    main()
