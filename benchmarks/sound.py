"""How does a voice sound compared with its teacher, and what does it cost?

Speaks Harvard sentences with each voice, with the teacher, and with the teacher's mel through the same vocoder
(copy-synthesis), and measures all of them alike: DistillMOS and DNSMOS, word error rate, movement and variance of the
mel as ratios to the teacher's, mel-cepstral distance to the teacher's reading after DTW, and CPU time.

    python benchmarks/sound.py --prompts harvard_720.txt --voice default --voice attention --out results/sound.json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clock_attention.evaluation.prompts import read_prompts
from clock_attention.evaluation.scoring.bootstrap import mean_with_interval
from clock_attention.evaluation.scoring.cepstra import cepstral_distance
from clock_attention.evaluation.scoring.error_rates import score_sentences
from clock_attention.evaluation.scoring.opinion import load_predictor
from clock_attention.evaluation.scoring.recognizers import load_recognizer
from clock_attention.evaluation.scoring.sharpness import sharpness
from clock_attention.speech.audio.mel import MelSpectrogram
from clock_attention.speech.audio.wave import resample, trim_silence
from clock_attention.speech.corpus.teacher import TEACHER_RATE, Teacher, TeacherPhrase
from clock_attention.speech.voice.speech import Speech
from clock_attention.speech.voice.voice import Voice


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", required=True, help="text file with one sentence a line")
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--voice", action="append", help="name or folder of a voice; may be repeated")
    parser.add_argument("--pace", type=float, action="append", help="times natural speed; may be repeated")
    parser.add_argument("--steps", type=int, action="append", help="of a flow decoder; may be repeated")
    parser.add_argument("--guidance", type=float, action="append", help="of a flow decoder; may be repeated")
    parser.add_argument("--vocoder", default="auto")
    parser.add_argument("--recognizer", default="moonshine")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    texts = chosen(arguments.prompts, arguments.sentences, arguments.seed)
    judge = Judge(arguments.recognizer)
    names = arguments.voice or ["default"]
    first = Voice.load(names[0])
    readings = [teacher_wave(text, first.language.mel.sample_rate) for text in texts]
    spectrogram = MelSpectrogram(first.language.mel)
    references = [spectrogram(wave).numpy() for wave in readings]
    vocoder = first.vocoder(arguments.vocoder)
    rate = first.language.mel.sample_rate
    copies = [vocoder(torch.from_numpy(mel)) for mel in references]
    rows = [
        judge.row("teacher", texts, readings, references, references, rate),
        judge.row("copy-synthesis", texts, copies, references, references, rate),
    ]
    for voice, title, pace in systems(names, arguments.steps, arguments.guidance, arguments.pace):
        voice.speak("Warm up.", vocoder=vocoder)
        started = time.process_time()
        spoken = [voice.speak(text, pace=pace, vocoder=vocoder) for text in texts]
        cpu = time.process_time() - started
        waves, mels = [speech.audio for speech in spoken], [decoded_mel(speech) for speech in spoken]
        cost = cpu / sum(speech.seconds for speech in spoken)
        rows.append(judge.row(title, texts, waves, mels, references, rate, cpu_per_second=cost))
    settings = {key: value for key, value in vars(arguments).items() if key != "out"}
    settings["prompts"] = Path(arguments.prompts).name
    if arguments.out:
        arguments.out.write_text(json.dumps({"settings": settings, "vocoder": vocoder.name, "rows": rows}, indent=1))


def systems(
    names: list[str], steps: list[int] | None, guidance: list[float] | None, paces: list[float] | None
) -> Iterator[tuple[Voice, str, float]]:
    """Every voice, title and pace to be measured; those with a flow decoder with all steps and weights of guidance."""
    for name, pace in product(names, paces or [1.0]):
        voice, title = Voice.load(name), f"{Path(name).name}, pace {pace:g}"
        if getattr(voice.model, "flow", None) is None:
            yield voice, title, pace
            continue
        for chosen_steps, weight in product(steps or [None], guidance or [None]):
            drawn = voice.with_sampling(chosen_steps, weight)
            flow = drawn.model.flow
            count = "1 step" if flow.steps == 1 else f"{flow.steps} steps"
            yield drawn, f"{title}, {count}, guidance {flow.guidance:g}", pace


def chosen(prompts: str, count: int, seed: int) -> list[str]:
    texts = [prompt.text for prompt in read_prompts(prompts)]
    return [texts[place] for place in np.random.default_rng(seed).permutation(len(texts))[:count]]


def teacher_wave(text: str, rate: int, speed: float = 1.0) -> np.ndarray[Any, Any]:
    wave = Teacher()(TeacherPhrase(id="", group="", text=text, speed=speed, seed=0))
    return trim_silence(resample(wave, TEACHER_RATE, rate), rate)


def decoded_mel(speech: Speech) -> np.ndarray[Any, Any]:
    """The decoded mel, without the digital silence that is added later, because the teacher's readings have none."""
    return np.concatenate([utterance.mel.numpy() for utterance in speech.utterances])


class Judge:
    def __init__(self, recognizer: str) -> None:
        self.recognizer = load_recognizer(recognizer)
        self.predictors = {name: load_predictor(name) for name in ("distillmos", "dnsmos")}

    def row(
        self,
        name: str,
        texts: list[str],
        waves: list[Any],
        mels: list[Any],
        references: list[Any],
        rate: int,
        **more: float,
    ) -> dict[str, Any]:
        opinions = [
            {
                "distillmos": self.predictors["distillmos"](wave, rate)["mos"],
                "dnsmos": self.predictors["dnsmos"](wave, rate)["ovrl"],
            }
            for wave in waves
        ]
        ratios = [sharpness(mel).ratio(sharpness(other)) for mel, other in zip(mels, references, strict=True)]
        measures = {
            **{key: [opinion[key] for opinion in opinions] for key in ("distillmos", "dnsmos")},
            **{key: [getattr(ratio, key) for ratio in ratios] for key in ("time", "bins", "variance")},
            "cepstral_distance": [cepstral_distance(*pair) for pair in zip(mels, references, strict=True)],
        }
        output = [self.recognizer.transcribe(wave, rate) for wave in waves]
        wer = score_sentences(texts, output).wer
        row = {"name": name, "wer": [wer.estimate, wer.low, wer.high]}
        row |= {key: mean_with_interval(values) for key, values in measures.items()} | more
        print_row(row)
        return row


def print_row(row: dict[str, Any]) -> None:
    parts = [
        f"{key} {value[0]:.3f} [{value[1]:.3f}, {value[2]:.3f}]"
        for key, value in row.items()
        if isinstance(value, list)
    ]
    cost = f", CPU s per s {row['cpu_per_second']:.3f}" if "cpu_per_second" in row else ""
    print(f"{row['name']}: {', '.join(parts)}{cost}", flush=True)


if __name__ == "__main__":
    main()
