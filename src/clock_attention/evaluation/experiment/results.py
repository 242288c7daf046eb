"""Results of an experiment: read the results of its stages, draw figures, generate samples, write the report."""

from __future__ import annotations

from pathlib import Path

import torch

from clock_attention.evaluation.digest import digest
from clock_attention.evaluation.experiment.journal import read_journal
from clock_attention.evaluation.experiment.report import Evidence, write_report
from clock_attention.evaluation.experiment.stages import Experiment
from clock_attention.evaluation.pipeline.evaluate import Evaluation
from clock_attention.evaluation.pipeline.sweep import SAMPLE, at, lengths_of, read_sweep
from clock_attention.evaluation.prompts import Prompt
from clock_attention.evaluation.report.document import AudioSamples, Picture
from clock_attention.evaluation.report.figures import draw_curves
from clock_attention.evaluation.systems.systems import Length, System, TeacherSystem, VoiceSystem
from clock_attention.speech.audio.sound_writing import save_sound
from clock_attention.speech.vocoder.vocoder import Vocoder, load_vocoder
from clock_attention.speech.voice.voice import Voice

SAMPLES = (
    Prompt("sample", SAMPLE, "listen"),
    Prompt("birch", "The birch canoe slid on the smooth planks.", "listen"),
)
CAPTIONS = {
    "sweep/scores.png": "WER and CER over the mel-to-phoneme ratio with 95 % intervals.",
    "sweep/parallel.png": f"Attention maps and mels of “{SAMPLE}”, parallel decoding.",
    "sweep/autoregressive.png": f"Attention maps and mels of “{SAMPLE}”, autoregressive decoding.",
    "curves.png": "Learning curves: validation L1, and how focused the most diagonal head is.",
}


def report_experiment(experiment: Experiment) -> tuple[Path, Path]:
    """Read the results of a finished experiment and write report.md and report.html into its folder."""
    out = experiment.out
    draw_curves({one.name: experiment.run(one.name) for one in experiment.contestants}, out / "curves.png")
    pictures = [Picture(out / name, caption) for name, caption in CAPTIONS.items() if (out / name).exists()]
    evidence = Evidence(
        about=read_journal(out),
        contestants=experiment.contestants,
        sweep=read_sweep(out / "sweep" / "sweep.json"),
        hard=evaluations(out / "hard"),
        copy=evaluations(out / "copy"),
        full=evaluations(out / "full") if experiment.full else [],
        voices={one.name: experiment.voice(one.name) for one in experiment.contestants},
        pictures=pictures,
        sounds=record(experiment),
        synthetic=experiment.preset.teacher,
    )
    return write_report(evidence, out)


def evaluations(folder: Path) -> list[Evaluation]:
    """Read the results of a sweep in an experiment's folder; empty if there are none."""
    return read_sweep(folder / "sweep.json") if (folder / "sweep.json").exists() else []


def record(experiment: Experiment) -> list[AudioSamples]:
    """Audio samples for an experiment's results: the same sentences at natural length and, if possible, at others."""
    systems: list[System] = [
        VoiceSystem(Voice.load(experiment.voice(one.name)), name=one.name) for one in experiment.contestants
    ]
    mel = systems[0].mel
    if experiment.preset.teacher:
        systems.append(TeacherSystem(mel))
    vocoder = load_vocoder(experiment.vocoder, mel)
    samples = []
    for prompt in SAMPLES:
        recordings = []
        for system in systems:
            for length in lengths_of(system, [3.0, 10.0]) if prompt == SAMPLES[0] else lengths_of(system, []):
                title = f"{system.name}, {length}"
                # The name changes with the weights and the vocoder.
                made = digest(system.fingerprint, vocoder.fingerprint)[:6]
                name = f"{prompt.id}-{system.name}-{length}-{made}.flac".replace(" ", "")
                path = experiment.out / "samples" / name
                if not path.exists():
                    write_sample(system, length, prompt, vocoder, path)
                recordings.append((title, path))
        samples.append(AudioSamples(f"“{prompt.text}”", tuple(recordings)))
    return samples


def write_sample(system: System, length: Length, prompt: Prompt, vocoder: Vocoder, path: Path) -> None:
    """Write one audio sample for an experiment's results."""
    (sound,) = at(system, length).say([prompt])
    assert sound.mel is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    save_sound(path, vocoder(torch.from_numpy(sound.mel)), vocoder.mel.sample_rate)
