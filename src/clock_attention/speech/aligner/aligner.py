"""Forced alignment: when each word and phone of a known text is said."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from clock_attention.speech.aligner import search
from clock_attention.speech.aligner.adaptation import adapt
from clock_attention.speech.aligner.emissions import Emissions
from clock_attention.speech.aligner.features import FRAME_SECONDS, RATE, features
from clock_attention.speech.aligner.graph import build
from clock_attention.speech.aligner.long import align_long
from clock_attention.speech.aligner.model import SHIPPED, AlignerNet, load_model
from clock_attention.speech.aligner.prior import meeting_prior
from clock_attention.speech.aligner.results import (
    AlignedInterval,
    AlignedRecording,
    AlignmentError,
    Flag,
    TokenTimes,
)
from clock_attention.speech.aligner.training import Labels
from clock_attention.speech.aligner.transcript import OTHER, Transcript, transcript
from clock_attention.speech.audio.repair import repaired
from clock_attention.speech.audio.wave import (
    HIGHEST_RATE,
    LOWEST_RATE,
    Wave,
    audio_seconds,
    load_audio,
    resample,
    stream_audio,
)
from clock_attention.speech.text.phonemes import Phonemes, UnreadableTextError
from clock_attention.speech.text.phonemizers import phonemizer

logger = logging.getLogger(__name__)

QUIETEST = 1e-4  # peak of a recording that holds anything
TOLERANCE = 4  # frames: 20 ms, within which confidence is counted
CLOCK_WEIGHT = 0.8  # a prior of every frame: those of a sound share one
SHARPNESS = 0.12  # neighbouring frames say nearly the same: their evidence is not to be multiplied in full
OVERCONFIDENCE = 4  # power that makes the posterior's share within 20 ms as often right as it says
FASTEST = 40.0  # sounds a second
LONG = 60.0  # seconds: what is longer is aligned in pieces


@dataclass(frozen=True)
class Found:
    """Where the units of a transcript lie, in frames; units that were passed over have no place."""

    units: NDArray[np.int64]  # (present,) those that take time, in order
    edges: NDArray[np.float64]  # (present + 1,) in frames, from 0 to the end
    confidence: NDArray[np.float64]  # (present + 1,) of the edges
    score: float
    posterior: NDArray[np.float32]  # (frames, states)
    path: NDArray[np.int32]  # (frames,) the best states


class Aligner:
    """A network that hears sounds, and a search that puts those of a text in order."""

    def __init__(self, model: AlignerNet, device: str | torch.device = "cpu") -> None:
        self.model = model.to(device).eval()
        self.device = torch.device(device)
        self.reader = phonemizer()

    @classmethod
    def load(cls, path: str | Path | None = None, device: str | torch.device = "cpu") -> Aligner:
        """The model in a folder; the one that comes with the package if none is given."""
        return cls(load_model(path or SHIPPED), device)

    def align(
        self,
        audio: str | Path | ArrayLike,
        text: str,
        *,
        sample_rate: int | None = None,
        posterior: bool = True,
        report: Callable[[float], None] = lambda seconds: None,
    ) -> AlignedRecording:
        """Words and phones of a recording: a sound file, or samples of one channel with their rate.

        Recordings of more than a minute are aligned piece by piece, in bounded memory; they have no posterior and no
        clocks. `report` is then called with the seconds that were heard so far.

        Raises:
            AlignmentError: for a recording or a text that cannot be aligned, with the reason.
        """
        phonemes = self.read(text)
        if isinstance(audio, str | Path):
            try:
                if audio_seconds(audio) > LONG:
                    return align_long(self, stream_audio(audio, RATE), phonemes, report)
            except AlignmentError:
                raise
            except ValueError as error:
                raise AlignmentError(str(error)) from None
        wave = self.wave(audio, sample_rate)
        if len(wave) > LONG * RATE:
            return align_long(self, [wave], phonemes, report)
        return self.align_heard(self.emissions(wave), phonemes, len(wave) / RATE, posterior=posterior)

    def read(self, text: str) -> Phonemes:
        """How a text is read; an AlignmentError where nothing in it can be."""
        try:
            return self.reader(text)
        except UnreadableTextError as error:
            raise AlignmentError(str(error)) from None

    @property
    def threshold(self) -> float:
        """Scores below it: the text is not what is said."""
        return self.model.config.threshold

    def align_heard(
        self, emissions: Emissions, phonemes: Phonemes, duration: float, *, posterior: bool = False
    ) -> AlignedRecording:
        """Words and phones of what was heard in `duration` seconds."""
        script = transcript(phonemes, tolerant=True)
        check_length(script, duration)
        found = self.find(emissions, script)
        edges = np.minimum(found.edges * FRAME_SECONDS, duration)
        edges[-1] = duration
        return AlignedRecording(
            duration=duration,
            words=words_of(found, edges, script),
            phones=phones_of(found, edges, script),
            score=found.score,
            fits=found.score >= self.threshold,
            flags=flags_of(found, edges, script),
            posterior=token_posterior(found.posterior, script) if posterior else None,
            source_clock=script.clock,
            target_clock=emissions.clock,
            frame_seconds=FRAME_SECONDS,
        )

    def align_phonemes(self, wave: ArrayLike, sample_rate: int, phonemes: Phonemes) -> TokenTimes:
        """Start and end of every token. Each phoneme takes time; word boundaries and pauses may have length 0."""
        samples = self.wave(wave, sample_rate)
        script = transcript(phonemes, tolerant=False)
        check_length(script, len(samples) / RATE)
        found = self.find(self.emissions(samples), script)
        duration = len(samples) / RATE
        edges = np.minimum(found.edges * FRAME_SECONDS, duration)
        edges[-1] = duration
        return token_times(found, edges, script, found.score >= self.threshold)

    def adapt(
        self,
        recordings: Iterable[tuple[str | Path | ArrayLike, str]],
        *,
        sample_rate: int | None = None,
        passes: int = 2,
        report: Callable[[int, int, float], None] | None = None,
    ) -> Aligner:
        """Another aligner, for these recordings (sound, text): it learns from the boundaries that it finds in them.

        Each pass aligns all of them and then learns from all of them. Recordings whose text does not fit, and those
        with words missing or added, are not learned from. `report` is told the pass, how many recordings were learned
        from, and their mean score.

        Raises:
            AlignmentError: where none of the recordings can be learned from.
        """
        learned = type(self)(deepcopy(self.model), self.device)
        sounds = [(learned.wave(audio, sample_rate), text) for audio, text in recordings]
        adapt(learned, sounds, passes=passes, report=report)
        return learned

    def labels(self, wave: ArrayLike, sample_rate: int, text: str) -> tuple[Labels | None, float]:
        """States with the ends that are found for them, to learn from, and the score; none if words do not agree."""
        samples = self.wave(wave, sample_rate)
        script = transcript(self.reader(text), tolerant=True)
        check_length(script, len(samples) / RATE)
        found = self.find(self.emissions(samples), script)
        if flags_of(found, found.edges * FRAME_SECONDS, script):
            return None, found.score
        last = np.flatnonzero(np.diff(found.path, append=-1))
        units = script.graph.unit[found.path[last]]
        ends = (last + 1) * FRAME_SECONDS
        edges = dict(zip(found.units.tolist(), found.edges[1:] * FRAME_SECONDS, strict=True))
        final = np.diff(units, append=-1) != 0
        ends[final] = [edges[unit] for unit in units[final].tolist()]
        states = script.graph.column[found.path[last]].astype(np.int64)
        begins = np.diff(units, prepend=-1) != 0
        return Labels(states, np.maximum.accumulate(ends), begins), found.score

    def wave(self, audio: str | Path | ArrayLike, sample_rate: int | None) -> Wave:
        """16 kHz samples of one channel, or an error that says what is wrong with them."""
        if isinstance(audio, str | Path):
            try:
                wave, lost = repaired(load_audio(audio, RATE))
            except ValueError as error:
                raise AlignmentError(str(error)) from None
            if lost:
                logger.warning("%s had lost %d bytes in a transfer in text mode: they were put back", audio, lost)
        else:
            samples = np.asarray(audio, dtype=np.float32)
            if sample_rate is None:
                raise AlignmentError("samples were given without their rate: give sample_rate in Hz")
            if not LOWEST_RATE <= sample_rate <= HIGHEST_RATE:
                raise AlignmentError(f"sample_rate: got {sample_rate} Hz, expected {LOWEST_RATE} … {HIGHEST_RATE}")
            if samples.ndim != 1:
                raise AlignmentError(
                    f"samples: got shape {samples.shape}, expected one channel (samples,): mix or choose"
                )
            wave = resample(repaired(samples)[0], sample_rate, RATE)
        if not np.isfinite(wave).all():
            raise AlignmentError("the recording holds values that are not numbers")
        if len(wave) < RATE // 20:
            raise AlignmentError(f"the recording is {len(wave) / RATE:.3f} s long: there is nothing to align")
        if np.abs(wave).max() < QUIETEST:
            raise AlignmentError("the recording is silent: there is nothing to align")
        return wave

    @torch.inference_mode()
    def emissions(self, wave: Wave) -> Emissions:
        """What the network hears in every frame of 16 kHz samples."""
        states, change = self.model(features(torch.from_numpy(wave))[None].to(self.device))
        return Emissions(states[0].cpu().numpy(), change[0].cpu().numpy(), np.array(self.model.config.log_prior))

    def find(self, emissions: Emissions, script: Transcript) -> Found:
        """The best places of all units: what is heard is the evidence, the clocks are the prior."""
        graph = script.graph
        scores, change = emissions.scores[:, graph.column], emissions.change
        if CLOCK_WEIGHT:
            sounds = int(script.clock[-1])
            scores = scores + CLOCK_WEIGHT * meeting_prior(emissions.clock, script.readings, sounds)
        path, _ = search.best_path(scores, change, graph)
        units = graph.unit[path]
        firsts = np.flatnonzero(np.diff(units, prepend=-1))
        present = units[firsts].astype(np.int64)
        # How sure the edges are, given which words are there: alternatives without some of them would blur the others.
        kept = np.where(script.kind == OTHER, -2, script.word)
        kept = np.flatnonzero(np.isin(kept, [-1, *script.word[present]]) | np.isin(np.arange(len(kept)), present))
        states = np.flatnonzero(np.isin(graph.unit, kept))
        row = build([graph.units[unit] for unit in kept.tolist()])
        place_in_row = np.searchsorted(states, path).astype(np.int32)
        posterior = search.posterior(scores[:, states], change, row, place_in_row, sharpness=SHARPNESS)
        edges = np.append(firsts, len(path)).astype(np.float64)
        confidence = np.ones(len(edges))
        cumulated = np.cumsum(posterior, axis=1)
        beginnings = np.searchsorted(row.unit, np.searchsorted(kept, present))
        for place in range(1, len(firsts)):
            before = cumulated[:, beginnings[place] - 1]  # probability that the unit has not begun yet
            edges[place], confidence[place] = crossing(before, int(firsts[place]))
        whole = np.zeros((len(path), len(graph.unit)), np.float32)
        whole[:, states] = posterior
        return Found(present, ordered(edges), confidence, emissions.score(path, graph), whole, path)


def check_length(script: Transcript, duration: float) -> None:
    sounds = int(script.clock[-1]) if len(script.clock) else 0
    if sounds > FASTEST * duration:
        raise AlignmentError(
            f"the text is too long for the recording: {sounds} sounds in {duration:.2f} s, "
            f"and nobody says more than {FASTEST:g} a second"
        )


def ordered(edges: NDArray[np.float64], least: float = 0.5) -> NDArray[np.float64]:
    """Edges in order, at least half a frame apart."""
    steps = least * np.arange(len(edges))
    end = edges[-1]
    edges = np.maximum.accumulate(edges - steps) + steps
    edges[-1] = end
    return np.minimum.accumulate((edges - steps)[::-1])[::-1] + steps


def crossing(before: NDArray[np.float64], near: int) -> tuple[float, float]:
    """Where a falling probability passes one half, between frames, and its fall within 20 ms of there."""
    begin, end = max(near - 60, 0), min(near + 60, len(before))
    window = np.minimum.accumulate(before[begin:end])
    below = int(np.searchsorted(-window, -0.5))
    if below == 0 or below == len(window):
        place = float(near)
    else:
        high, low = window[below - 1], window[below]
        place = begin + below - 0.5 + (high - 0.5) / max(high - low, 1e-9)  # a frame speaks for its middle
    at = round(place)
    early, late = before[max(at - TOLERANCE - 1, 0)], before[min(at + TOLERANCE, len(before) - 1)]
    return place, float(np.clip(early - late, 0.0, 1.0) ** OVERCONFIDENCE)


def interval(found: Found, edges: NDArray[np.float64], first: int, last: int, label: str) -> AlignedInterval:
    """From the beginning of one present unit to the end of another."""
    confidence = float(min(found.confidence[first], found.confidence[last + 1]))
    return AlignedInterval(edges[first], edges[last + 1], label, confidence)


def grouped(
    found: Found, edges: NDArray[np.float64], keys: Sequence[object], labels: Sequence[str]
) -> tuple[AlignedInterval, ...]:
    """Neighbouring units with equal keys as one interval, of those that take time."""
    out: list[AlignedInterval] = []
    begin = 0
    for place in range(1, len(keys) + 1):
        if place == len(keys) or keys[place] != keys[begin]:
            if edges[place] > edges[begin]:
                out.append(interval(found, edges, begin, place - 1, labels[begin]))
            begin = place
    return tuple(out)


def words_of(found: Found, edges: NDArray[np.float64], script: Transcript) -> tuple[AlignedInterval, ...]:
    keys = [int(script.word[unit]) for unit in found.units]
    return grouped(found, edges, keys, [script.phonemes.words[key] if key >= 0 else "" for key in keys])


def phones_of(found: Found, edges: NDArray[np.float64], script: Transcript) -> tuple[AlignedInterval, ...]:
    keys = [int(unit) if script.is_phone(unit) else -1 for unit in found.units]
    labels = [
        script.phonemes.tokens[script.token[unit]] if key >= 0 else ""
        for key, unit in zip(keys, found.units, strict=True)
    ]
    return grouped(found, edges, keys, labels)


def flags_of(found: Found, edges: NDArray[np.float64], script: Transcript) -> list[Flag]:
    flags: list[Flag] = []
    for place, unit in enumerate(found.units):
        if script.kind[unit] == OTHER:
            flags.append(Flag("spoken-not-written", "", float(edges[place]), float(edges[place + 1])))
    said = set(script.word[found.units].tolist())
    for word, text in enumerate(script.phonemes.words):
        if word not in said:
            after = int(np.searchsorted(found.units, np.flatnonzero(script.word == word)[0]))
            flags.append(Flag("written-not-spoken", text, float(edges[after]), float(edges[after])))
    return sorted(flags, key=lambda flag: flag.start)


def token_posterior(posterior: NDArray[np.float32], script: Transcript) -> NDArray[np.float32]:
    """Probability of each token at each frame (frames, tokens); what is left is silence around the text."""
    out = np.zeros((len(posterior), len(script.phonemes)), np.float32)
    for state, unit in enumerate(script.graph.unit):
        if script.token[unit] >= 0:
            out[:, script.token[unit]] += posterior[:, state]
    return out


def token_times(found: Found, edges: NDArray[np.float64], script: Transcript, fits: bool) -> TokenTimes:
    count = len(script.phonemes)
    starts, ends, confidence = np.full(count, np.nan), np.full(count, np.nan), np.ones(count)
    for place, unit in enumerate(found.units):
        if (token := script.token[unit]) >= 0:
            starts[token], ends[token] = edges[place], edges[place + 1]
            confidence[token] = min(found.confidence[place], found.confidence[place + 1])
    reached = float(edges[1]) if script.token[found.units[0]] < 0 else 0.0
    leading = reached
    for token in range(count):  # tokens that take no time lie where the one before them ended
        if np.isnan(starts[token]):
            starts[token] = ends[token] = reached
        reached = float(ends[token])
    return TokenTimes(starts, ends, confidence, leading, float(edges[-1]) - reached, found.score, fits)
