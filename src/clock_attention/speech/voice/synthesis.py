"""Synthesis, from text to speech: sentences, phonemes, frames of each phrase, mel, waveform, times of all phonemes.

`utter` runs only the acoustic model, one utterance per text; `stream` yields a text sentence by sentence. `Voice`
offers both as methods.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from clock_attention.alignment import FloatArray, IntArray, crossing_times, whole_durations
from clock_attention.speech.audio.shaping import with_quiet_onset
from clock_attention.speech.model.aligned import SILENCE_AFTER, SILENCE_BEFORE, AlignedModel
from clock_attention.speech.model.transformer_model import Clocks, Synthesis
from clock_attention.speech.text.phonemes import (
    Phonemes,
    joined,
)
from clock_attention.speech.text.timestamp_tiers import word_intervals
from clock_attention.speech.voice.intonation import question_rise
from clock_attention.speech.voice.pacing import Pacing
from clock_attention.speech.voice.phrases import EncodedPhrase, Phrase
from clock_attention.speech.voice.planning import (
    PhrasePlan,
    PlannedSentence,
    planned_request,
    spoken_durations,
    with_silences,
)
from clock_attention.speech.voice.request import Request, well_formed
from clock_attention.speech.voice.speech import Speech
from clock_attention.speech.voice.utterance import Utterance, alignment_matrix, with_longer_silences
from clock_attention.speech.voice.voice_folder import VoiceFolder
from clock_attention.speech.voice.waveform import sounded
from clock_attention.timestamps import Alignment, Interval

if TYPE_CHECKING:
    from clock_attention.speech.vocoder.vocoder import Vocoder

MOST_DEVIATIONS, IMPLAUSIBLE_SHARE = 30.0, 0.01  # not speech if a larger share of values deviates more


def utter(
    voice: VoiceFolder,
    texts: Sequence[str],
    *,
    frames: int | Sequence[int] | None = None,
    mpr: float | None = None,
    pace: float | None = None,
) -> list[Utterance]:
    """Synthesis of texts in one batched pass of the acoustic model, without sentence splitting or a vocoder.

    Args:
        frames: mel frames of each text, or one number for all. Parallel decoding keeps them exactly; an autoregressive
            model uses them as its pace and ends when its clock does.
        mpr: mel frames per phoneme.
        pace: relative to natural; 2 is twice as fast.
    """
    if isinstance(texts, str):
        raise TypeError(f"texts: got one text, {texts[:40]!r}, expected a list of them; speak() takes one")
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
    voice: VoiceFolder,
    texts: Sequence[str],
    phonemes: Sequence[Phonemes],
    pacing: Pacing,
    frames: Sequence[int] | None,
    encoded: EncodedPhrase | None = None,
    **control: IntArray | FloatArray | None,
) -> list[Utterance]:
    """Synthesis by one pass of the model; questions rise if the model accepts a pitch.

    Args:
        encoded: for a single text: its encoding, if planning has already computed it.
        control: for aligned models and single texts: `durations` in frames and `pitch` in semitones, of every token and
            the enclosing silences (T + 2,).
    """
    if not texts:
        return []
    tokens, lengths = voice.batch_tokens(phonemes)
    given: dict[str, Any] = {} if encoded is None else {"encoded": encoded.state}
    if (durations := control.get("durations")) is not None:
        given["durations"] = torch.from_numpy(durations)[None].to(tokens.device)
    pitch = control.get("pitch")
    if voice.language.prosody is not None and isinstance(voice.model, AlignedModel):
        semitones = np.zeros((len(phonemes), tokens.shape[1] + 2)) if pitch is None else pitch[None].astype(float)
        for row, rise in zip(semitones, map(question_rise, phonemes), strict=True):
            if rise is not None:
                row[: len(rise)] += rise
        if semitones.any():
            standardised = semitones * (math.log(2) / 12 / voice.language.prosody.pitch_std)
            given["pitch"] = torch.from_numpy(standardised).float().to(tokens.device)
    else:
        assert pitch is None
    synthesis = voice.model.synthesise(
        tokens,
        lengths,
        frames=None if frames is None else torch.tensor(list(frames), device=tokens.device),
        mpr=pacing.mpr,
        speed=pacing.pace,
        **given,
    )
    check_plausible(voice, synthesis)
    return [
        cut_utterance(voice, synthesis, item, *reading)
        for item, reading in enumerate(zip(texts, phonemes, strict=True))
    ]


def check_plausible(voice: VoiceFolder, synthesis: Synthesis) -> None:
    """Check a synthesised mel: finite weights can still be nonsense and produce silence or noise."""
    valid = torch.arange(synthesis.mel.shape[1], device=synthesis.mel.device) < synthesis.frames[:, None]
    predicted = synthesis.mel[valid]  # (all frames, M), standardised
    if not bool(predicted.isfinite().all()):
        raise ValueError(f"{voice.path}: the model's output is not finite: its weights are damaged; export it again")
    share = float((predicted.abs() > MOST_DEVIATIONS).float().mean())
    if share > IMPLAUSIBLE_SHARE:
        warnings.warn(
            f"{voice.path}: the model's output lies far outside of any speech (more than {MOST_DEVIATIONS:g} standard "
            "deviations off): its weights are damaged or do not belong to its voice.json",
            stacklevel=2,
        )


def cut_utterance(voice: VoiceFolder, synthesis: Synthesis, item: int, text: str, phonemes: Phonemes) -> Utterance:
    """Extract one item of a synthesised batch, without padding."""
    frames, steps = int(synthesis.frames[item]), int(synthesis.steps[item])
    tokens, group = int(synthesis.tokens[item]), voice.model.config.frames_per_step
    weights = [layer[item, :, :steps, :tokens].float().cpu() for layer in synthesis.weights]  # (H, steps, T)
    if synthesis.durations is None:
        durations = token_durations(weights, len(phonemes), frames, group)
    else:
        phonemes = with_silences(phonemes)
        durations = synthesis.durations[item, : len(phonemes)].cpu().numpy()
    mel = voice.log_mel(synthesis.mel[item, :frames]).cpu()
    if synthesis.durations is not None:
        quiet = with_quiet_onset(mel.numpy(), int(durations[0]), math.log(voice.language.mel.log_floor))
        mel = torch.from_numpy(quiet)
    clocks = [
        Clocks(layer.target[item, :, :steps].cpu(), layer.source[item, :, :tokens].cpu()) for layer in synthesis.clocks
    ]
    return Utterance(
        text=text,
        phonemes=phonemes,
        mel=mel,
        alignment=Alignment(phonemes.tokens, durations, 1 / voice.frames_per_second),
        weights=weights,
        clocks=clocks,
        frames_per_step=group,
        natural_frames=int(synthesis.natural_frames[item]),
        stopped_by_itself=bool(synthesis.finished[item]) if voice.model.config.autoregressive else None,
    )


def token_durations(weights: Sequence[Tensor], tokens: int, frames: int, frames_per_step: int) -> IntArray:
    """Mel frames of each synthesised token, from where attention moves on to the next; they sum to `frames`.  (T,)

    Frames spent on the end token belong to the last token.
    """
    return whole_durations(crossing_times(alignment_matrix(weights))[:tokens] * frames_per_step, frames)


def stream(
    voice: VoiceFolder,
    request: Request,
    vocoder: str | Path | Vocoder,
    sentences: Iterable[PlannedSentence] | None = None,
) -> Iterator[Speech]:
    """Synthesis as a stream, sentence by sentence; the pieces joined are the whole speech.

    `sentences` are the `readings` of the request, if already available.
    """
    check_controls(voice, request)
    planned = planned_request(voice, request, sentences)
    # The vocoder is loaded only now, so that a rejected request costs nothing.
    return spoken(voice, planned, request, voice.vocoder(vocoder))


def check_controls(voice: VoiceFolder, request: Request) -> None:
    """Check a request before synthesis: raises for controls that the voice does not support."""
    if request.pacing.duration is not None and voice.model.config.autoregressive:
        raise ValueError(
            "duration: an autoregressive decoder ends when its clock has run out, so its duration cannot be "
            "promised; use parallel decoding, or set pace or mpr"
        )
    if request.controlled and not isinstance(voice.model, AlignedModel):
        raise ValueError(
            f"{voice.path}: this voice has no durations of single words (its alignment comes from attention), so "
            "timeline, pitch, energy, breaks, prosody and emphasis need another one: use the default voice"
        )
    if request.controlled and voice.language.prosody is None:
        raise ValueError(f"{voice.path}: this voice does not say what its pitch is measured in; export it again")


def spoken(
    voice: VoiceFolder,
    planned: Iterable[tuple[PlannedSentence, Sequence[PhrasePlan]]],
    request: Request,
    vocoder: Vocoder,
) -> Iterator[Speech]:
    """The stream of synthesis itself; sentences are not kept once they have been yielded."""
    for number, (sentence, phrase_plans) in enumerate(planned):
        with torch.random.fork_rng(devices=[]):  # does not change the consumer's random state
            torch.manual_seed(request.seed + number)
            speech = say(voice, sentence, phrase_plans, request.pacing, vocoder)
        yield speech


def say(
    voice: VoiceFolder, sentence: PlannedSentence, phrase_plans: Sequence[PhrasePlan], pacing: Pacing, vocoder: Vocoder
) -> Speech:
    """Synthesis of one sentence, phrase by phrase, each followed by its pause."""
    hop, rate = voice.language.mel.hop_length, voice.frames_per_second
    silence = math.log(voice.language.mel.log_floor)
    phonemes, durations = sentence.phonemes, np.zeros(len(sentence.phonemes), np.int64)
    utterances, offsets, mels, waves = [], [], [], []
    reached = end = 0
    for place, (phrase, plan) in enumerate(zip(sentence.phrases, phrase_plans, strict=True)):
        utterance = utter_phrase(voice, phrase, pacing, plan)
        pause = plan.pause
        utterances.append(utterance)
        if isinstance(voice.model, AlignedModel):  # speaks silence around every phrase itself
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
        waves += [sounded(utterance, vocoder, hop, plan.energy), np.zeros(pause * hop, np.float32)]
        end = reached + len(utterance.mel)
        reached = end + pause
    alignment = Alignment(phonemes.tokens, durations, 1 / rate)
    words = word_intervals(phonemes, alignment)
    shown = Interval(0, end / rate, sentence.text)
    if any(plan.durations is not None for plan in phrase_plans):  # without long requested silences
        shown = Interval(
            max(0.0, words[0].start - SILENCE_BEFORE / rate),
            min(end / rate, words[-1].end + SILENCE_AFTER / rate),
            sentence.text,
        )
    return Speech(
        text=sentence.text,
        audio=np.concatenate(waves),
        sample_rate=voice.language.mel.sample_rate,
        mel=torch.cat(mels),
        phonemes=phonemes,
        alignment=alignment,
        utterances=tuple(utterances),
        offsets=tuple(offsets),
        sentences=(shown,),
        marks=tuple(mark_times(sentence, words)),
    )


def mark_times(sentence: PlannedSentence, words: Sequence[Interval]) -> Iterator[Interval]:
    """Marks of synthesised speech as intervals without duration: at the next word, or before a break."""
    for mark in sentence.controls.marks:
        place = bisect_left(sentence.numbers, mark.word)
        if place == len(words) or (mark.before_break and place):
            time = words[place - 1].end
        else:
            time = 0.0 if mark.before_break else words[place].start
        yield Interval(time, time, mark.name)


def utter_phrase(voice: VoiceFolder, phrase: Phrase, pacing: Pacing, plan: PhrasePlan) -> Utterance:
    """Synthesis of one phrase; long silences, which the model has not learned, are inserted afterwards."""
    phonemes, durations = phrase.phonemes, plan.durations
    short = durations
    if durations is not None:
        short = spoken_durations(durations, phonemes)
    frames = None if plan.frames is None else [plan.frames]
    text = [" ".join(phonemes.words)]
    utterance = render(voice, text, [phonemes], pacing, frames, phrase.encoded, durations=short, pitch=plan.pitch)[0]
    if durations is None or short is None or (durations == short).all():
        return utterance
    return with_longer_silences(utterance, durations, math.log(voice.language.mel.log_floor))
