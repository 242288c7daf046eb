"""The plan of the experiment as tables: the systems, their training data, and the estimated cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from clock_attention.evaluation.experiment.jobs import PrepareCorpus, SynthesizeCorpus

Comparison = Literal["best", "paper", "autoregressive", "rivals"]
COMPARISONS = {
    "best": "Shared recipe, developed with clocks, same for the dot product: several rates, normalized positions.",
    "paper": "Paper-like conditions: one speaking rate, absolute positions.",
    "autoregressive": "Autoregressive decoding, free running.",
    "rivals": "Plain L1, several rates, normalized positions: other ways to give frames their position.",
}


@dataclass(frozen=True)
class Contestant:
    """A system in the experiment's plan: the training preset with these changes, trained on these corpora."""

    name: str
    comparison: Comparison
    corpora: tuple[str, ...]
    changes: tuple[str, ...]


# Plain L1 throughout. In autoregressive training the previous true frames determine the timing, so there is no blur.
PLAIN = ("steps=16_000", "warped_share=0.0")
AS_PRINTED = ("positions=absolute", "stretch_share=0.0")
# In the small experiment, every system learns pace from a teacher that reads at different speeds (`paces`); with
# ONE_PACE, there is one pace, as in the paper. Short phrases make alignments form early, for every system.
ONE_PACE = ("phrases", "natural")
ALL_PACES = (*ONE_PACE, "paces")
# One scalar clock per head, with the pace of the utterance given: docs/theory/causal.md.
CAUSAL = ("clocks=causal", "clock_width=1", "logit_scale_start=4.0")
# "own_frames" is the former name of "scheduled_sampling", kept so that older experiments can still be continued.
AUTOREGRESSIVE = ("decoding=autoregressive", "positions=rotary", "own_frames=1.0")
SMALL = (
    Contestant("parallel-clock", "best", ALL_PACES, ("cross_attention=clock",)),
    Contestant("parallel-dot", "best", ALL_PACES, ("cross_attention=dot",)),
    Contestant("paper-clock", "paper", ONE_PACE, ("cross_attention=clock", *AS_PRINTED, *PLAIN)),
    Contestant("paper-dot", "paper", ONE_PACE, ("cross_attention=dot", *AS_PRINTED, *PLAIN)),
    Contestant("causal-clock", "autoregressive", ALL_PACES, (*AUTOREGRESSIVE, *CAUSAL, *PLAIN)),
    Contestant("printed-clock", "autoregressive", ALL_PACES, (*AUTOREGRESSIVE, "clocks=unnormalized", *PLAIN)),
    Contestant("autoregressive-dot", "autoregressive", ALL_PACES, (*AUTOREGRESSIVE, "cross_attention=dot", *PLAIN)),
)
RIVALS = tuple(
    Contestant(f"plain-{name}", "rivals", ALL_PACES, (f"cross_attention={name}", *PLAIN))
    for name in ("clock", "dot", "larope", "uniform")
)
# LJSpeech has one pace, so pace is learned from time-stretched mels.
STRETCHED = ("positions=normalized", "stretch_share=0.5")
NATURAL = ("natural",)
STEP_BY_STEP = ("decoding=autoregressive", "own_frames=1.0")
PAPER = (
    Contestant("paper-clock", "paper", NATURAL, ("cross_attention=clock",)),
    Contestant("paper-dot", "paper", NATURAL, ("cross_attention=dot",)),
    Contestant("parallel-clock", "best", NATURAL, ("cross_attention=clock", *STRETCHED)),
    Contestant("parallel-dot", "best", NATURAL, ("cross_attention=dot", *STRETCHED)),
    Contestant("causal-clock", "autoregressive", NATURAL, (*STEP_BY_STEP, *CAUSAL)),
    Contestant("printed-clock", "autoregressive", NATURAL, (*STEP_BY_STEP, "clocks=unnormalized")),
    Contestant("autoregressive-dot", "autoregressive", NATURAL, (*STEP_BY_STEP, "cross_attention=dot")),
)
SPEEDS = (0.6, 0.75, 0.9, 1.0, 1.15, 1.35, 1.6)


@dataclass(frozen=True)
class Preset:
    """A size of the experiment's plan."""

    training: str  # preset of `clock-attention train`
    contestants: tuple[Contestant, ...]
    corpora: dict[str, SynthesizeCorpus | PrepareCorpus]  # the experiment chooses their folders
    licence: str  # of the corpora, and so of the voices
    consent: str | None  # of the people who speak in the corpora; None for synthetic speech
    teacher: bool  # whether there is a teacher whose speech can be compressed in time
    subset: int | None  # number of prompts in the sweep; None: all
    step_seconds: float  # for the estimate, if there is no log: one core of a 2021 server, or the paper's GPU
    mprs: tuple[str, ...] = ("3:10",)
    changes: tuple[str, ...] = field(default=())  # to every training run


ANYWHERE = Path()
SYNTHETIC = Preset(
    training="small-l1",
    contestants=SMALL,
    corpora={
        "phrases": SynthesizeCorpus(ANYWHERE, shortest=10, longest=60),
        "natural": SynthesizeCorpus(ANYWHERE),
        "paces": SynthesizeCorpus(ANYWHERE, speeds=SPEEDS),
    },
    licence="Apache-2.0, synthetic speech of hibari-tts",
    consent=None,
    teacher=True,
    subset=200,
    step_seconds=0.3,
)
PLANS = {
    "small": SYNTHETIC,
    "rivals": replace(SYNTHETIC, contestants=RIVALS),
    "paper": Preset(
        training="paper",
        contestants=PAPER,
        corpora={"natural": PrepareCorpus(ANYWHERE, phonemizer="arpabet")},
        licence="public domain, LJSpeech-1.1",
        consent="Recorded by Linda Johnson for LibriVox, which dedicates its recordings to the public domain",
        teacher=False,
        subset=None,
        step_seconds=0.2,
    ),
}

# CPU seconds per second of audio, measured on the same two cores: HiFi-GAN V1, Moonshine tiny; Whisper base always
# processes half a minute, however short the sentence.
VOCODER_SECONDS = 0.5
RECOGNIZER_SECONDS = {"moonshine": 0.15, "whisper": 0.6}
SENTENCE_SECONDS = 3.0
CORPUS_SECONDS = 60.0  # per hour of the teacher's speech
