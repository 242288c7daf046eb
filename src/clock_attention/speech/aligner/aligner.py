"""Forced alignment: the times of the words and phones of a known text in a recording."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike

from clock_attention.speech.aligner.acoustics import Acoustics
from clock_attention.speech.aligner.adaptation import adapt
from clock_attention.speech.aligner.emissions import Emissions
from clock_attention.speech.aligner.features import FRAME_SECONDS, RATE, normalised_features, spectrogram
from clock_attention.speech.aligner.long_recordings import align_long
from clock_attention.speech.aligner.network import SHIPPED, AlignerNet, load_model
from clock_attention.speech.aligner.phone_classes import sounds
from clock_attention.speech.aligner.positions import find
from clock_attention.speech.aligner.results import AlignedRecording, AlignmentError, TokenTimes
from clock_attention.speech.aligner.training import Labels
from clock_attention.speech.aligner.transcript import transcript
from clock_attention.speech.aligner.words_and_phones import flags_of, phones_of, token_posterior, token_times, words_of
from clock_attention.speech.audio.crlf_repair import repaired
from clock_attention.speech.audio.sound_reading import (
    HIGHEST_RATE,
    LOWEST_RATE,
    full_seconds,
    load_audio,
    stream_audio,
)
from clock_attention.speech.audio.wave import Wave, resample
from clock_attention.speech.text.phonemes import Phonemes, UnreadableTextError
from clock_attention.speech.text.phonemizers import phonemizer

logger = logging.getLogger(__name__)

QUIETEST = 1e-4  # recordings with a lower peak count as silent
MOST_SOUNDS_PER_SECOND = 40.0
LONG = 60.0  # seconds; longer recordings are aligned in pieces


class Aligner:
    """Forced aligner: a network that classifies phones, and a search over the phones of a text."""

    def __init__(self, model: AlignerNet, device: str | torch.device = "cpu") -> None:
        self.model = model.to(device).eval()
        self.device = torch.device(device)
        self.reader = phonemizer()

    @classmethod
    def load(cls, path: str | Path | None = None, device: str | torch.device = "cpu") -> Aligner:
        """Load an aligner from a folder, or the one that comes with the package if no path is given."""
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
        """Align words and phones with a recording: an audio file, or samples of one channel with their rate.

        Recordings longer than a minute are aligned piece by piece, in bounded memory; the result then has no posterior
        and no clocks, and `report` is called with the seconds processed so far.

        Raises:
            AlignmentError: if the recording and the text cannot be aligned, with the reason.
        """
        phonemes = self.read(text)
        if isinstance(audio, str | Path):
            try:
                if full_seconds(audio) > LONG:
                    return align_long(self, stream_audio(audio, RATE), phonemes, report)
            except AlignmentError:
                raise
            except ValueError as error:
                raise AlignmentError(str(error)) from None
        wave = self.wave(audio, sample_rate)
        if len(wave) > LONG * RATE:
            return align_long(self, [wave], phonemes, report)
        return self.align_emissions(self.emissions(wave), phonemes, len(wave) / RATE, posterior=posterior)

    def read(self, text: str) -> Phonemes:
        """Phonemes of a text; raises an AlignmentError if nothing in it can be read."""
        try:
            return self.reader(text)
        except UnreadableTextError as error:
            raise AlignmentError(str(error)) from None

    @property
    def threshold(self) -> float:
        """Score below which a text does not match the recording."""
        return self.model.config.threshold

    def align_emissions(
        self, emissions: Emissions, phonemes: Phonemes, duration: float, *, posterior: bool = False
    ) -> AlignedRecording:
        """Align words and phones with the emissions of `duration` seconds."""
        check_length(phonemes, duration)
        script = transcript(phonemes, tolerant=True)
        found = find(emissions, script)
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
        """Start and end of every token; phonemes have a positive duration, word boundaries and pauses may have none."""
        samples = self.wave(wave, sample_rate)
        check_length(phonemes, len(samples) / RATE)
        script = transcript(phonemes, tolerant=False)
        found = find(self.emissions(samples), script)
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
        """A copy of this aligner, adapted to recordings (audio, text) by training on the boundaries it finds in them.

        Each pass aligns all of them and then learns from all of them. Recordings whose text does not fit, and those
        with words missing or added, are not used for training. `report` is called with the pass, the number of
        recordings used, and their mean score.

        Raises:
            AlignmentError: if none of the recordings can be used for training.
        """
        learned = type(self)(deepcopy(self.model), self.device)
        learned.reader = self.reader
        waves = [(learned.wave(audio, sample_rate), text) for audio, text in recordings]
        adapt(learned, waves, passes=passes, report=report)
        return learned

    def labels(self, wave: ArrayLike, sample_rate: int, text: str) -> tuple[Labels | None, float]:
        """Training labels (states with the ends found for them), or None if words do not agree; and the score."""
        samples = self.wave(wave, sample_rate)
        phonemes = self.reader(text)
        check_length(phonemes, len(samples) / RATE)
        script = transcript(phonemes, tolerant=True)
        found = find(self.emissions(samples), script)
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
        """16 kHz samples of one channel; raises an error that says what is wrong with them."""
        if isinstance(audio, str | Path):
            try:
                wave, lost = repaired(load_audio(audio, RATE))
            except ValueError as error:
                raise AlignmentError(str(error)) from None
            if lost:
                logger.warning("%s had lost %d bytes in a text-mode transfer; they were restored", audio, lost)
        else:
            samples = np.asarray(audio, dtype=np.float32)
            if sample_rate is None:
                raise AlignmentError("samples were given without their rate: give sample_rate in Hz")
            if not LOWEST_RATE <= sample_rate <= HIGHEST_RATE:
                raise AlignmentError(f"sample_rate: got {sample_rate} Hz, expected {LOWEST_RATE} … {HIGHEST_RATE}")
            if samples.ndim != 1:
                raise AlignmentError(
                    f"samples: got shape {samples.shape}, expected one channel (samples,): mix them or choose one"
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
        """The network's output for every frame of 16 kHz samples."""
        mel = spectrogram()(torch.from_numpy(wave))
        states, change = self.model(normalised_features(mel)[None].to(self.device))
        config = self.model.config
        return Emissions(
            states[0].cpu().numpy(),
            change[0].cpu().numpy(),
            np.array(config.log_prior),
            config.search,
            Acoustics.of(mel),
        )


def check_length(phonemes: Phonemes, duration: float) -> None:
    """Raise if a text has more sounds than fit into the recording to align, before a graph is built."""
    spoken = sum(sound is not None for sound in sounds(phonemes.tokens, phonemes.word_index))
    if spoken > MOST_SOUNDS_PER_SECOND * duration:
        raise AlignmentError(
            f"the text is too long for the recording: {spoken} sounds in {duration:.2f} s, "
            f"expected at most {MOST_SOUNDS_PER_SECOND:g} per second"
        )
