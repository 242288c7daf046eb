"""Evaluate one system on a list of prompts: speak, vocode, recognise and score each utterance only once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from clock_attention.evaluation.pipeline.cache import Cache, CacheKeys
from clock_attention.evaluation.pipeline.chain import ChainJob, ChainOutcome, ChainWorkers, kept_audio
from clock_attention.evaluation.prompts import Prompt
from clock_attention.evaluation.scoring.bootstrap import RESAMPLES, ConfidenceInterval
from clock_attention.evaluation.scoring.error_rates import (
    Measure,
    Score,
    align,
    difference,
    require_words,
    score_sentences,
)
from clock_attention.evaluation.scoring.skips_and_repeats import pooled_measures
from clock_attention.evaluation.systems.systems import System, SystemOutput
from clock_attention.files import write_atomically

BATCH = 16


@dataclass(frozen=True)
class Result:
    """One prompt of an evaluation with its transcripts and measures."""

    id: str
    group: str
    text: str
    frames: int
    seconds: float
    measures: dict[str, float]  # of the alignment; empty if there is none
    transcripts: dict[str, str]  # by recognizer
    opinions: dict[str, dict[str, float]]  # by predictor
    audio: str = ""


@dataclass(frozen=True)
class Evaluation:
    """A system on a list of prompts at one length."""

    system: str
    length: str
    fingerprint: str
    vocoder: str
    recognizers: dict[str, str]  # name → fingerprint
    results: tuple[Result, ...]
    mpr: float | None = None  # as requested
    vocoder_name: str = ""
    resamples: int = RESAMPLES
    seed: int = 0
    # Measures of the audio with their intervals: its own under "", comparisons under the other system's title.
    sound: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.system}, {self.length}"

    @property
    def seconds(self) -> float:
        return sum(result.seconds for result in self.results)

    @cached_property
    def scores(self) -> dict[str, Score]:
        """Scores by recognizer."""
        return {name: self.score(name) for name in self.recognizers}

    def score(self, recognizer: str) -> Score:
        texts = [result.text for result in self.results]
        hypotheses = [result.transcripts[recognizer] for result in self.results]
        if counts_phones(recognizer):  # compared with the phones of the text
            return Score(tuple(align([phones(text) for text in texts], hypotheses)), self.resamples, self.seed)
        return score_sentences(texts, hypotheses, resamples=self.resamples, seed=self.seed)

    @cached_property
    def alignment(self) -> dict[str, float]:
        """Alignment measures: counts are summed over all prompts, the others averaged."""
        return pooled_measures([result.measures for result in self.results])

    @cached_property
    def opinions(self) -> dict[str, dict[str, float]]:
        """Mean opinion scores by predictor."""
        names = self.results[0].opinions if self.results else {}
        return {name: pooled_measures([result.opinions[name] for result in self.results]) for name in names}

    def to_json(self) -> dict[str, Any]:
        return {**self.summary(), "results": [asdict(result) for result in self.results]}

    def summary(self) -> dict[str, Any]:
        """The numbers only, without sentences and transcripts."""
        return {
            "system": self.system,
            "length": self.length,
            "mpr": self.mpr,
            "fingerprint": self.fingerprint,
            "vocoder": self.vocoder,
            "vocoder_name": self.vocoder_name,
            "recognizers": self.recognizers,
            "resamples": self.resamples,
            "seed": self.seed,
            "seconds": self.seconds,
            "prompts": len(self.results),
            "scores": {name: score.to_json() for name, score in self.scores.items()},
            "alignment": self.alignment,
            "opinions": self.opinions,
            **({"sound": self.sound} if self.sound else {}),
        }

    @classmethod
    def from_json(cls, table: dict[str, Any]) -> Evaluation:
        fields = ("system", "length", "fingerprint", "vocoder", "vocoder_name", "recognizers", "mpr", "sound")
        given = {name: table[name] for name in fields if name in table}
        results = tuple(Result(**row) for row in table["results"])
        return cls(**given, results=results, resamples=table["resamples"], seed=table["seed"])

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(self.to_json(), ensure_ascii=False, indent=1))

    @classmethod
    def read(cls, path: Path) -> Evaluation:
        return cls.from_json(json.loads(path.read_text("utf-8")))


def counts_phones(recognizer: str) -> bool:
    """Whether a recognizer's "words" are phones: the error rates of its evaluation are then phone error rates."""
    return recognizer.endswith("-phones")


def phones(text: str) -> str:
    """A prompt as ARPAbet phones, for comparison with the output of a phone recognizer."""
    from clock_attention.speech.text.phonemes import WORD_BOUNDARY
    from clock_attention.speech.text.phonemizers import phonemizer

    return " ".join(token for token in phonemizer("arpabet")(text).tokens if token not in (WORD_BOUNDARY, ",", "."))


def paired_difference(
    first: Evaluation, second: Evaluation, recognizer: str, measure: Measure = "wer"
) -> ConfidenceInterval:
    """Difference of error rates, first evaluation minus second; the interval resamples sentences in pairs."""
    for one in (first, second):
        if recognizer not in one.recognizers:
            raise ValueError(f"{one.title} was not recognised by {recognizer!r}, only by {', '.join(one.recognizers)}")
    return difference(first.scores[recognizer], second.scores[recognizer], measure)


OnProgress = Callable[[int], None]


def nothing(done: int) -> None:
    """Do not report the progress of an evaluation."""


def evaluate(
    system: System,
    prompts: Sequence[Prompt],
    chains: ChainWorkers,
    cache: Cache,
    *,
    rank: int = 0,
    world: int = 1,
    audio: Path | None = None,
    report: OnProgress = nothing,
    seed: int = 0,
) -> Evaluation | None:
    """Score a system on prompts; only what is missing from the cache is spoken, vocoded and recognised.

    Args:
        chains: vocoder and recognizers, in one process or several.
        rank, world: this process takes every `world`-th prompt; returns None while other processes have work to do.
            Call again with world = 1 after all have finished to combine their results.
        audio: folder to save the audio in, one FLAC file per utterance; recognizers added later use it.
        report: called with the number of utterances just finished.
    """
    if not prompts:
        raise ValueError("no prompts to speak")
    for prompt in prompts:
        require_words(prompt.text)
    chain = chains.chain
    keys = {place: CacheKeys.of(system, prompt, chain) for place, prompt in enumerate(prompts)}
    mine = list(range(len(prompts)))[rank::world]
    todo = [
        place
        for place in mine
        if any(cache.get(key) is None for key in keys[place].all)
        or (audio is not None and not (audio / keys[place].file).exists())
    ]
    report(len(mine) - len(todo))
    by_key = {keys[place].spoken: place for place in todo}
    for outcome in chains.process(jobs(system, prompts, keys, sorted(by_key.values()), cache, audio)):
        remember(cache, keys[by_key[outcome.key]], outcome)
        report(1)
    report(len(todo) - len(by_key))  # duplicate prompts
    if any(cache.get(key) is None for one in keys.values() for key in one.all):
        return None
    return Evaluation(
        system=system.name,
        length=str(system.length),
        fingerprint=system.fingerprint,
        vocoder=chain.vocoder.fingerprint if system.vocoded else "",
        recognizers={name: one.fingerprint for name, one in chain.recognizers.items()},
        results=tuple(collect(prompt, keys[place], cache, audio) for place, prompt in enumerate(prompts)),
        mpr=system.length.mpr,
        vocoder_name=chain.vocoder.name if system.vocoded else "none",
        seed=seed,
    )


def jobs(
    system: System,
    prompts: Sequence[Prompt],
    keys: dict[int, CacheKeys],
    places: Sequence[int],
    cache: Cache,
    audio: Path | None,
) -> Iterator[ChainJob]:
    """Chain jobs of an evaluation for prompts without results, in batches of similar length; saved audio is reused."""
    silent = []
    for place in places:
        kept = kept_audio(audio / keys[place].file) if audio else None
        row = cache.get(keys[place].spoken)
        if kept and row is not None:
            yield job(keys[place], SystemOutput(row["frames"], measures=row["measures"], **kept), cache, audio)
        else:
            silent.append(place)
    # The longest first: a lack of memory shows at once, and the time left is never underestimated.
    order = sorted(silent, key=lambda place: system.size(prompts[place]), reverse=True)
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        for place, sound in zip(batch, system.say([prompts[place] for place in batch]), strict=True):
            one = keys[place]
            if cache.get(one.spoken) is None:
                cache.put(one.spoken, {"text": prompts[place].text, "frames": sound.frames, "measures": sound.measures})
            yield job(one, sound, cache, audio)


def job(keys: CacheKeys, sound: SystemOutput, cache: Cache, audio: Path | None) -> ChainJob:
    """Chain job of an evaluation for one prompt, with the recognizers and predictors missing from the cache."""
    return ChainJob(
        key=keys.spoken,
        sound=sound,
        recognizers=tuple(name for name, key in keys.transcripts.items() if cache.get(key) is None),
        predictors=tuple(name for name, key in keys.opinions.items() if cache.get(key) is None),
        audio=audio / keys.file if audio else None,
    )


def remember(cache: Cache, keys: CacheKeys, outcome: ChainOutcome) -> None:
    """Store the chain's results for one prompt in the cache of an evaluation."""
    for name, transcript in outcome.transcripts.items():
        cache.put(keys.transcripts[name], {"recognizer": name, "transcript": transcript, "seconds": outcome.seconds})
    for name, scores in outcome.opinions.items():
        cache.put(keys.opinions[name], {"predictor": name, "scores": scores})


def collect(prompt: Prompt, keys: CacheKeys, cache: Cache, audio: Path | None) -> Result:
    """Combine the result of one prompt from the cache of an evaluation."""
    spoken = cache.held(keys.spoken)
    found = {name: cache.held(key) for name, key in keys.transcripts.items()}
    return Result(
        id=prompt.id,
        group=prompt.group,
        text=prompt.text,
        frames=spoken["frames"],
        seconds=next(iter(found.values()))["seconds"],
        measures=spoken["measures"],
        transcripts={name: one["transcript"] for name, one in found.items()},
        opinions={name: cache.held(key)["scores"] for name, key in keys.opinions.items()},
        audio=keys.file if audio else "",
    )
