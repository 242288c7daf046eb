"""Text → speech: sentences, phonemes, frames shared out, mel, waveform, and where in time every phoneme is.

`utter` is the acoustic model alone, one utterance per text; `stream` yields a text sentence by sentence. `Voice` offers
both as methods.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from clock_attention.alignment import IntArray, crossing_times, whole_durations
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.model.model import Clocks, Synthesis
from clock_attention.speech.text.phonemes import (
    NO_WORD,
    WORD_BOUNDARY,
    Phonemes,
    UnreadableTextError,
    joined,
    token_ids,
)
from clock_attention.speech.text.sentences import Sentence as WrittenSentence
from clock_attention.speech.voice.folder import VoiceFolder
from clock_attention.speech.voice.pacing import (
    FEWEST_FRAMES,
    PARAGRAPH,
    Pacing,
    Phrase,
    check_duration,
    cut_phrases,
    share_frames,
)
from clock_attention.speech.voice.request import Request, well_formed
from clock_attention.speech.voice.speech import Speech
from clock_attention.speech.voice.utterance import Utterance, alignment_matrix
from clock_attention.timestamps import Alignment, Interval

if TYPE_CHECKING:
    from clock_attention.speech.vocoder.vocoder import Vocoder

logger = logging.getLogger(__name__)

LENGTH_BATCH = 16  # phrases whose length is predicted together
MOST_DEVIATIONS, IMPLAUSIBLE_SHARE = 30.0, 0.01  # values further off than that, in more than this share, are no speech
FADE = 64  # samples at both ends of a phrase: no click where speech meets silence


def utter(
    voice: VoiceFolder,
    texts: Sequence[str],
    *,
    frames: int | Sequence[int] | None = None,
    mpr: float | None = None,
    pace: float | None = None,
) -> list[Utterance]:
    """One batched pass of the acoustic model, without splitting into sentences and without a vocoder.

    Args:
        frames: mel frames of each text (one number: of all). Parallel decoding keeps them exactly; an autoregressive
            model takes them for its pace and ends when its clock does.
        mpr: mel frames per phoneme.
        pace: relative to natural; 2 is twice as fast.
    """
    if frames is not None:
        if mpr is not None or pace is not None:
            raise ValueError("frames were given together with mpr or pace; each of them sets the length: choose one")
        frames = [frames] * len(texts) if isinstance(frames, int) else [int(count) for count in frames]
        if len(frames) != len(texts) or min(frames, default=1) < 1:
            raise ValueError(f"frames: got {frames}, expected a count ≥ 1 for each of {len(texts)} texts")
    pacing = Pacing.of(pace, mpr, None)
    texts = [well_formed(text) for text in texts]
    return render(voice, texts, [voice.phonemizer(text) for text in texts], pacing, frames)


def render(
    voice: VoiceFolder, texts: Sequence[str], phonemes: Sequence[Phonemes], pacing: Pacing, frames: Sequence[int] | None
) -> list[Utterance]:
    if not texts:
        return []
    tokens, lengths = batch_tokens(voice, phonemes)
    synthesis = voice.model.synthesise(
        tokens,
        lengths,
        frames=None if frames is None else torch.tensor(list(frames), device=tokens.device),
        mpr=pacing.mpr,
        speed=pacing.pace,
    )
    check_plausible(voice, synthesis)
    return [
        cut_utterance(voice, synthesis, item, *reading)
        for item, reading in enumerate(zip(texts, phonemes, strict=True))
    ]


def check_plausible(voice: VoiceFolder, synthesis: Synthesis) -> None:
    """Weights can be finite and still be nonsense, which a vocoder would turn into silence or noise without a word."""
    valid = torch.arange(synthesis.mel.shape[1], device=synthesis.mel.device) < synthesis.frames[:, None]
    predicted = synthesis.mel[valid]  # (all frames, M), standardised
    if not bool(predicted.isfinite().all()):
        raise ValueError(f"{voice.path}: the model's output is not finite: its weights are damaged; export it again")
    share = float((predicted.abs() > MOST_DEVIATIONS).float().mean())
    if share > IMPLAUSIBLE_SHARE:
        warnings.warn(
            f"{voice.path}: what the model says lies far outside of any speech (more than {MOST_DEVIATIONS:g} standard "
            "deviations off): its weights are damaged or do not belong to its voice.json",
            stacklevel=2,
        )


def batch_tokens(voice: VoiceFolder, phonemes: Sequence[Phonemes]) -> tuple[Tensor, Tensor]:
    """Token ids (B, T), padded with 0, and how many of them are valid (B,)."""
    ids = [torch.tensor(token_ids(item.tokens, voice.language.symbols)) for item in phonemes]
    lengths = torch.tensor([len(item) for item in ids], device=voice.device)
    return torch.nn.utils.rnn.pad_sequence(ids, batch_first=True).to(voice.device), lengths


def cut_utterance(voice: VoiceFolder, synthesis: Synthesis, item: int, text: str, phonemes: Phonemes) -> Utterance:
    """One item of a batch without its padding."""
    frames, steps = int(synthesis.frames[item]), int(synthesis.steps[item])
    tokens, group = int(synthesis.tokens[item]), voice.model.config.frames_per_step
    weights = [layer[item, :, :steps, :tokens].float().cpu() for layer in synthesis.weights]  # (H, steps, T)
    if synthesis.durations is None:
        durations = token_durations(weights, len(phonemes), frames, group)
    else:
        phonemes = with_silences(phonemes)
        durations = synthesis.durations[item, : len(phonemes)].cpu().numpy()
    clocks = [
        Clocks(layer.target[item, :, :steps].cpu(), layer.source[item, :, :tokens].cpu()) for layer in synthesis.clocks
    ]
    return Utterance(
        text=text,
        phonemes=phonemes,
        mel=voice.log_mel(synthesis.mel[item, :frames]).cpu(),
        alignment=Alignment(phonemes.tokens, durations, 1 / voice.frames_per_second),
        weights=weights,
        clocks=clocks,
        frames_per_step=group,
        natural_frames=int(synthesis.natural_frames[item]),
        stopped_by_itself=bool(synthesis.finished[item]) if voice.model.config.autoregressive else None,
    )


def token_durations(weights: Sequence[Tensor], tokens: int, frames: int, frames_per_step: int) -> IntArray:
    """Mel frames of each token, from where attention crosses to the next; they sum to `frames`.  (T,)

    Frames spent on the end token belong to the last token.
    """
    return whole_durations(crossing_times(alignment_matrix(weights))[:tokens] * frames_per_step, frames)


@dataclass(frozen=True)
class Sentence:
    """A sentence that is ready to be spoken."""

    text: str
    phonemes: Phonemes
    phrases: list[Phrase]


def stream(voice: VoiceFolder, request: Request, vocoder: str | Path | Vocoder) -> Iterator[Speech]:
    """Speak sentence by sentence; joined end to end, the pieces are the whole."""
    if request.pacing.duration is not None and voice.model.config.autoregressive:
        raise ValueError(
            "duration: an autoregressive decoder ends when its clock has run out, so its duration cannot be "
            "promised; use parallel decoding, or set pace or mpr"
        )
    sentences = readings(voice, request)
    first = next(sentences, None)
    if first is None:
        shown = request.text if len(request.text) <= 60 else request.text[:60] + "…"
        raise UnreadableTextError(f"nothing to say in {shown!r}: give at least one English word or number")
    sentences = chain([first], sentences)
    if request.most_seconds is not None:
        sentences = iter(within(voice, sentences, request.pacing, request.most_seconds))
    # Loaded only now: a request that is refused costs nothing.
    return spoken(voice, sentences, request.pacing, request.seed, voice.vocoder(vocoder))


def within(voice: VoiceFolder, sentences: Iterable[Sentence], pacing: Pacing, seconds: float) -> list[Sentence]:
    """The sentences, if they will not last longer than that: by the length model, in a hundredth of the time."""
    found: list[Sentence] = []
    expected = 0.0
    for sentence in sentences:
        found.append(sentence)
        expected += estimated_seconds(voice, sentence.phrases, pacing)
        if max(expected, pacing.duration or 0.0) > seconds:
            raise ValueError(
                f"this text lasts more than {seconds:g} seconds ({pacing.duration or expected:.0f} s by the end of "
                f"sentence {len(found)}): give a shorter one"
            )
    return found


def estimated_seconds(voice: VoiceFolder, phrases: Sequence[Phrase], pacing: Pacing) -> float:
    """How long phrases and their pauses will last; 0 where the duration has been asked for."""
    if pacing.duration is not None:
        return 0.0
    pauses = sum(phrase.pause for phrase in phrases) / pacing.speed(voice.language.mpr)
    if pacing.mpr is not None:
        return pauses + pacing.mpr * sum(len(phrase.phonemes) for phrase in phrases) / voice.frames_per_second
    return pauses + sum(natural_lengths(voice, phrases)) / (pacing.pace or 1.0) / voice.frames_per_second


def readings(voice: VoiceFolder, request: Request) -> Iterator[Sentence]:
    """The readable sentences of a text, each but the last closed by a boundary token that can hold the pause."""
    previous: tuple[WrittenSentence, Phonemes] | None = None
    for sentence in request.sentences:
        try:
            phonemes = voice.phonemizer.read(sentence)
        except UnreadableTextError:
            logger.warning("skipped %r: nothing in it can be read aloud", sentence.text[:60])
            continue
        if previous is not None:
            closed = with_boundary(previous[1])
            pause = request.pause * (PARAGRAPH if previous[0].ends_paragraph else 1)
            yield Sentence(previous[0].text, closed, cut_phrases(closed, pause, voice.longest_phrase))
        previous = sentence, phonemes
    if previous is not None:
        yield Sentence(previous[0].text, previous[1], cut_phrases(previous[1], 0.0, voice.longest_phrase))


def with_silences(phonemes: Phonemes) -> Phonemes:
    """With the silence before and after as word boundaries."""
    return Phonemes(
        (WORD_BOUNDARY, *phonemes.tokens, WORD_BOUNDARY), (NO_WORD, *phonemes.word_index, NO_WORD), phonemes.words
    )


def with_boundary(phonemes: Phonemes) -> Phonemes:
    """Ending with a pause or word boundary, which is where the pause before the next sentence goes."""
    if phonemes.word_index[-1] == NO_WORD:
        return phonemes
    return Phonemes((*phonemes.tokens, WORD_BOUNDARY), (*phonemes.word_index, NO_WORD), phonemes.words)


def spoken(
    voice: VoiceFolder, sentences: Iterable[Sentence], pacing: Pacing, seed: int, vocoder: Vocoder
) -> Iterator[Speech]:
    """The stream itself. Nothing is kept of a sentence once it has been handed over."""
    lengths: Iterator[int] | None = None
    if pacing.duration is not None:
        sentences = list(sentences)
        lengths = iter(planned_frames(voice, [phrase for s in sentences for phrase in s.phrases], pacing.duration))
    for number, sentence in enumerate(sentences):
        with torch.random.fork_rng(devices=[]):  # the consumer's own random numbers stay as they were
            torch.manual_seed(seed + number)
            speech = say(voice, sentence, pacing, lengths, vocoder)
        yield speech


def natural_lengths(voice: VoiceFolder, phrases: Sequence[Phrase]) -> list[int]:
    """Frames of each phrase at natural pace, by the length model."""
    frames: list[int] = []
    for start in range(0, len(phrases), LENGTH_BATCH):
        batch = [phrase.phonemes for phrase in phrases[start : start + LENGTH_BATCH]]
        frames += voice.model.natural_frames(*batch_tokens(voice, batch)).tolist()
    return frames


def planned_frames(voice: VoiceFolder, phrases: Sequence[Phrase], seconds: float) -> list[int]:
    """Frames of each phrase and of the pause after it, in turn, that sum to the duration exactly."""
    natural: list[int] = []
    for phrase, count in zip(phrases, natural_lengths(voice, phrases), strict=True):
        natural += [count, round(phrase.pause * voice.frames_per_second)]
    fewest = [count for phrase in phrases for count in (FEWEST_FRAMES * len(phrase.phonemes), 0)]
    total = round(seconds * voice.frames_per_second)
    check_duration(
        seconds, total, sum(len(phrase.phonemes) for phrase in phrases), sum(natural), 1 / voice.frames_per_second
    )
    return share_frames(total, natural, fewest)


def say(
    voice: VoiceFolder, sentence: Sentence, pacing: Pacing, lengths: Iterator[int] | None, vocoder: Vocoder
) -> Speech:
    """One sentence, phrase by phrase, each followed by its pause."""
    hop, rate = voice.language.mel.hop_length, voice.frames_per_second
    silence = math.log(voice.language.mel.log_floor)
    phonemes, durations = sentence.phonemes, np.zeros(len(sentence.phonemes), np.int64)
    utterances, offsets, mels, waves = [], [], [], []
    reached = end = 0
    for place, phrase in enumerate(sentence.phrases):
        frames = None if lengths is None else [next(lengths)]
        utterance = render(voice, [" ".join(phrase.phonemes.words)], [phrase.phonemes], pacing, frames)[0]
        pause = round(phrase.pause * rate / pacing.speed(voice.language.mpr)) if lengths is None else next(lengths)
        utterances.append(utterance)
        if isinstance(voice.model, AlignedModel):  # has silence of its own around every phrase
            before = np.empty(0, np.int64) if place == 0 else durations
            durations = np.concatenate([before, utterance.alignment.durations])
            durations[-1] += pause
            phonemes = joined([spoken.phonemes for spoken in utterances])
        else:
            durations[phrase.start : phrase.stop] = utterance.alignment.durations
            following = [*sentence.phrases, None][place + 1]
            durations[(len(durations) if following is None else following.start) - 1] += pause
        offsets.append(reached)
        mels += [utterance.mel, torch.full((pause, utterance.mel.shape[1]), silence)]
        waves += [fitted(vocoder(utterance.mel), len(utterance.mel) * hop), np.zeros(pause * hop, np.float32)]
        end = reached + len(utterance.mel)
        reached = end + pause
    return Speech(
        text=sentence.text,
        audio=np.concatenate(waves),
        sample_rate=voice.language.mel.sample_rate,
        mel=torch.cat(mels),
        phonemes=phonemes,
        alignment=Alignment(phonemes.tokens, durations, 1 / rate),
        utterances=tuple(utterances),
        offsets=tuple(offsets),
        sentences=(Interval(0, end / rate, sentence.text),),
    )


def fitted(wave: Wave, samples: int) -> Wave:
    """Exactly so many samples (centred mels invert to one hop less), faded in and out."""
    wave = np.pad(wave[:samples], (0, max(0, samples - len(wave))))
    ramp = np.linspace(0, 1, min(FADE, samples), dtype=np.float32)
    wave[: len(ramp)] *= ramp
    wave[-len(ramp) :] *= ramp[::-1]
    return wave
