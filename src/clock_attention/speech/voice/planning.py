"""Planning of speech: reads sentences, cuts them into phrases, and sets frames of phrases, phonemes and pauses."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np

from clock_attention.arrays import FloatArray, IntArray
from clock_attention.speech.text.controls import UNCONTROLLED, Controls
from clock_attention.speech.text.phonemes import (
    NO_WORD,
    PAUSES,
    WORD_BOUNDARY,
    Phonemes,
    Phonemizer,
    UnreadableTextError,
    Word,
)
from clock_attention.speech.text.sentences import Sentence
from clock_attention.speech.voice.pacing import CLOSING, FEWEST_FRAMES, PARAGRAPH, Pacing, check_duration, share_frames
from clock_attention.speech.voice.phrases import EncodedPhrase, Phrase, cut_phrases
from clock_attention.speech.voice.request import Request, count_words, is_word
from clock_attention.speech.voice.timing import PhraseTiming, TimingRow, paced, requests, solve, split

logger = logging.getLogger(__name__)

LONGEST_PAUSE, LONGEST_CLOSING = 40, 12  # most frames of a pause and of enclosing silences that the model speaks


class PlannedVoice(Protocol):
    """Interface of a voice that planning needs, whether its model runs in torch or elsewhere."""

    @property
    def language(self) -> Any: ...  # with `mpr`, frames per phoneme of natural speech

    @property
    def frames_per_second(self) -> float: ...

    @property
    def longest_phrase(self) -> int: ...

    @property
    def phonemizer(self) -> Phonemizer: ...

    def encode(self, phonemes: Phonemes) -> EncodedPhrase: ...


@dataclass(frozen=True)
class PlannedSentence:
    """A planned sentence, ready to be spoken."""

    text: str
    phonemes: Phonemes
    phrases: list[Phrase]
    first: int = 0  # its words are first … stop of the text
    stop: int = 0
    numbers: tuple[int, ...] = ()  # of the words of `phonemes`; empty if no single words are controlled
    controls: Controls = UNCONTROLLED
    opens: bool = True  # whether the text starts and ends with it
    closes: bool = True

    def words_of(self, phrase: Phrase) -> tuple[int, ...]:
        """The word number of each token, −1 for boundaries."""
        index = self.phonemes.word_index[phrase.start : phrase.stop]
        return tuple(NO_WORD if word == NO_WORD else self.numbers[word] for word in index)


class PhrasePlan(NamedTuple):
    """The plan of a phrase: frames, and prosody of the silence before, every token and the silence after (T + 2,)."""

    pause: int  # frames after it
    frames: int | None = None  # of the phrase; None if the model decides
    durations: IntArray | None = None  # of its tokens
    pitch: FloatArray | None = None  # semitones
    energy: FloatArray | None = None  # decibels

    @property
    def total(self) -> int:
        """Total frames of a phrase whose tokens are all timed."""
        return self.pause + (0 if self.durations is None else int(self.durations.sum()))


def planned_request(
    voice: PlannedVoice, request: Request, sentences: Iterable[PlannedSentence] | None = None
) -> Iterator[tuple[PlannedSentence, list[PhrasePlan]]]:
    """Plan a request: its sentences with plans of their phrases; raises if it is unreadable or too long.

    `sentences` are the `readings` of the request, if already available.
    """
    found = readings(voice, request) if sentences is None else iter(sentences)
    first = next(found, None)
    if first is None:
        shown = request.text if len(request.text) <= 60 else request.text[:60] + "…"
        raise UnreadableTextError(f"nothing to say in {shown!r}: give at least one English word or number")
    found, limit = chain([first], found), request.most_seconds
    if limit is not None and not request.timed:
        found = iter(within(voice, found, request.pacing, limit))
    planned = plans(voice, found, request)
    return planned if limit is None or not request.timed else iter(planned_within(voice, planned, limit))


def within(
    voice: PlannedVoice, sentences: Iterable[PlannedSentence], pacing: Pacing, seconds: float
) -> list[PlannedSentence]:
    """Sentences to plan, unless the length model predicts more than `seconds`, in a hundredth of the synthesis time."""
    found: list[PlannedSentence] = []
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


def planned_within(
    voice: PlannedVoice, planned: Iterable[tuple[PlannedSentence, list[PhrasePlan]]], seconds: float
) -> list[tuple[PlannedSentence, list[PhrasePlan]]]:
    """Planned sentences, unless they last longer than `seconds`."""
    found = []
    frames = 0
    for sentence, phrases in planned:
        found.append((sentence, phrases))
        frames += sum(plan.total for plan in phrases)
        if frames > seconds * voice.frames_per_second:
            raise ValueError(
                f"this text lasts more than {seconds:g} seconds ({frames / voice.frames_per_second:.0f} s by the end "
                f"of sentence {len(found)}): give a shorter one"
            )
    return found


def estimated_seconds(voice: PlannedVoice, phrases: Sequence[Phrase], pacing: Pacing) -> float:
    """Planned length of phrases and pauses in seconds; 0 if a duration was requested."""
    if pacing.duration is not None:
        return 0.0
    pauses = sum(phrase.pause for phrase in phrases) / pacing.speed(voice.language.mpr)
    if pacing.mpr is not None:
        return pauses + pacing.mpr * sum(len(phrase.phonemes) for phrase in phrases) / voice.frames_per_second
    return pauses + sum(natural_lengths(voice, phrases)) / (pacing.pace or 1.0) / voice.frames_per_second


def readings(voice: PlannedVoice, request: Request) -> Iterator[PlannedSentence]:
    """Read the sentences of a text for planning, each ending with a boundary that can hold the pause after it."""
    previous: tuple[Sentence, Phonemes, int, int] | None = None
    opened, stop = 0, 0  # words that have been yielded, and words so far
    asked = request.controlled or bool(request.controls.marks)

    def ready(closes: bool) -> PlannedSentence:
        assert previous is not None
        written, phonemes, first, end = previous
        numbers = word_numbers(voice, written, end) if asked else ()
        phonemes = with_boundary(phonemes)
        pause = CLOSING if closes else request.pause * (PARAGRAPH if written.ends_paragraph else 1)
        controls = request.controls.of(first, end, closes=closes) if asked else UNCONTROLLED
        phrases = cut_phrases(phonemes, pause, voice.longest_phrase)
        return PlannedSentence(written.text, phonemes, phrases, first, end, numbers, controls, first == 0, closes)

    for sentence in request.sentences:
        stop += count_words(sentence)
        try:
            phonemes = voice.phonemizer.read(sentence)
        except UnreadableTextError:
            logger.warning("skipped %r: nothing in it can be read aloud", sentence.text[:60])
            continue
        if previous is not None:
            yield ready(closes=False)
        previous = sentence, phonemes, opened, stop
        opened = stop
    if previous is not None:
        yield ready(closes=True)


def word_numbers(voice: PlannedVoice, sentence: Sentence, stop: int) -> tuple[int, ...]:
    """Word numbers in the text, for planning, of a sentence's words that have phonemes; the last is before `stop`."""
    words = [
        unit
        for token, unit in zip(sentence.tokens, voice.phonemizer.units(sentence.tokens), strict=True)
        if is_word(token)
    ]
    first = stop - len(words)
    return tuple(first + place for place, unit in enumerate(words) if isinstance(unit, Word) and any(unit.spoken))


def plans(
    voice: PlannedVoice, sentences: Iterable[PlannedSentence], request: Request
) -> Iterator[tuple[PlannedSentence, list[PhrasePlan]]]:
    """Plan each sentence's phrases; if they have to fit a given total, all are planned before the first is yielded."""
    if not request.timed:
        yield from plain_plans(voice, sentences, request)
    elif (
        request.timeline is not None
        or request.pacing.duration is not None
        or request.keep == "total"
        or crosses(request)
    ):
        sentences = list(sentences)
        yield from zip(sentences, row_plans(voice, sentences, request), strict=True)
    else:
        for sentence in sentences:
            yield sentence, row_plans(voice, [sentence], request)[0]


def plain_plans(
    voice: PlannedVoice, sentences: Iterable[PlannedSentence], request: Request
) -> Iterator[tuple[PlannedSentence, list[PhrasePlan]]]:
    """Plans without word controls: phrase lengths by pace, or as shares of the total duration."""
    lengths: Iterator[int] | None = None
    pacing, rate = request.pacing, voice.frames_per_second
    if pacing.duration is not None:
        sentences = list(sentences)
        lengths = iter(planned_frames(voice, [phrase for s in sentences for phrase in s.phrases], pacing.duration))
    for sentence in sentences:
        found = []
        for phrase in sentence.phrases:
            frames = None if lengths is None else next(lengths)
            pause = round(phrase.pause * rate / pacing.speed(voice.language.mpr)) if lengths is None else next(lengths)
            prosody = contours(sentence, phrase, request) if request.controlled else (None, None)
            found.append(PhrasePlan(pause, frames, None, *prosody))
        yield sentence, found


def crosses(request: Request) -> bool:
    """Whether a stretch of exact duration extends beyond one sentence, for planning."""
    ends, reached = [], 0
    for sentence in request.sentences:
        reached += count_words(sentence)
        ends.append(reached)
    return any(ends[bisect_right(ends, stretch.first)] < stretch.stop for stretch in request.controls.stretches if ends)


def row_plans(voice: PlannedVoice, sentences: Sequence[PlannedSentence], request: Request) -> list[list[PhrasePlan]]:
    """Plans with word controls: whole frames of every token of these sentences."""
    row = TimingRow(timings(voice, sentences, request.pacing), 1 / voice.frames_per_second)
    controls = request.controls if len(sentences) > 1 else sentences[0].controls
    pace = request.pacing.pace or 1.0
    total = None
    if request.timeline is not None:
        labels = {number: word for s in sentences for number, word in zip(s.numbers, s.phonemes.words, strict=True)}
        fixed, total = request.timeline.fixed(row, entry_tokens(sentences), labels)
    else:
        fixed = requests(row, controls, opens=sentences[0].opens, closes=sentences[-1].closes)
        if request.pacing.duration is not None:
            total = row.frames(request.pacing.duration)
        elif request.keep == "total":
            total = row.natural_total(pace)
    durations = solve(row, paced(row, controls.prosody, pace), fixed, total)
    return [
        [
            PhrasePlan(pause, None, frames, *contours(sentence, phrase, request))
            for phrase, (frames, pause) in zip(sentence.phrases, phrases, strict=True)
        ]
        for sentence, phrases in zip(sentences, split(row, durations), strict=True)
    ]


def timings(voice: PlannedVoice, sentences: Sequence[PlannedSentence], pacing: Pacing) -> list[list[PhraseTiming]]:
    """Natural frames of every token, for planning; scaled to `mpr` frames per phoneme, if given."""
    return [[phrase_timing(voice, sentence, phrase, pacing) for phrase in sentence.phrases] for sentence in sentences]


def phrase_timing(voice: PlannedVoice, sentence: PlannedSentence, phrase: Phrase, pacing: Pacing) -> PhraseTiming:
    """Natural frames of one phrase's tokens and of its pause, for planning."""
    found = encoded(voice, phrase)
    assert found.durations is not None  # only aligned voices support controls of single words
    assert found.optional is not None
    frames = found.durations.astype(np.float64)
    pause = phrase.pause * voice.frames_per_second
    if pacing.mpr is not None:
        frames *= pacing.mpr * len(phrase.phonemes) / frames.sum()
        pause /= pacing.speed(voice.language.mpr)
    return PhraseTiming(frames, (~found.optional).astype(np.int64), sentence.words_of(phrase), pause)


def entry_tokens(sentences: Sequence[PlannedSentence]) -> list[str]:
    """The phoneme of each entry of a planned row, "" for silences, pauses and boundaries."""
    found: list[str] = []
    for sentence in sentences:
        for phrase in sentence.phrases:
            tokens = phrase.phonemes.tokens
            found += ["", *("" if token in PAUSES or token == WORD_BOUNDARY else token for token in tokens), "", ""]
    return found


def contours(
    sentence: PlannedSentence, phrase: Phrase, request: Request
) -> tuple[FloatArray | None, FloatArray | None]:
    """Planned prosody: semitones and decibels of silence before, tokens, silence after; None if not requested."""
    base, words = request.prosody, sentence.controls.prosody
    found = [base]
    for word in sentence.words_of(phrase):
        found.append(words[word].within(base) if word in words else base)
    found.append(base)
    pitch, energy = (np.array([getattr(prosody, name) for prosody in found]) for name in ("pitch", "energy"))
    return (pitch if pitch.any() else None), (energy if energy.any() else None)


def with_boundary(phonemes: Phonemes) -> Phonemes:
    """Phonemes that end with a pause or word boundary, where planning puts the pause after them."""
    if phonemes.word_index[-1] == NO_WORD:
        return phonemes
    return Phonemes((*phonemes.tokens, WORD_BOUNDARY), (*phonemes.word_index, NO_WORD), phonemes.words)


def encoded(voice: PlannedVoice, phrase: Phrase) -> EncodedPhrase:
    """The encoding of a planned phrase, computed once; synthesis reuses it."""
    if phrase.encoded is None:
        phrase.encoded = voice.encode(phrase.phonemes)
    return phrase.encoded


def natural_lengths(voice: PlannedVoice, phrases: Sequence[Phrase]) -> list[int]:
    """Frames of each planned phrase at natural pace, by the length model."""
    return [encoded(voice, phrase).frames for phrase in phrases]


def planned_frames(voice: PlannedVoice, phrases: Sequence[Phrase], seconds: float) -> list[int]:
    """Planned frames of each phrase and of the pause after it, in turn, that sum to the duration exactly."""
    natural: list[int] = []
    for phrase, count in zip(phrases, natural_lengths(voice, phrases), strict=True):
        natural += [count, round(phrase.pause * voice.frames_per_second)]
    fewest = [count for phrase in phrases for count in (FEWEST_FRAMES * len(phrase.phonemes), 0)]
    total = round(seconds * voice.frames_per_second)
    check_duration(
        seconds, total, sum(len(phrase.phonemes) for phrase in phrases), sum(natural), 1 / voice.frames_per_second
    )
    return share_frames(total, natural, fewest)


def spoken_durations(durations: IntArray, phonemes: Phonemes) -> IntArray:
    """Planned durations (T + 2,), limited to what the model is asked for, as it has not learned long silences."""
    silent = np.array([True, *(token in PAUSES or token == WORD_BOUNDARY for token in phonemes.tokens), True])
    longest = np.where(silent, LONGEST_PAUSE, durations)
    longest[[0, -1]] = LONGEST_CLOSING
    return np.minimum(durations, longest)


def with_silences(phonemes: Phonemes) -> Phonemes:
    """Planned phonemes with the silences before and after as word boundaries."""
    return Phonemes(
        (WORD_BOUNDARY, *phonemes.tokens, WORD_BOUNDARY), (NO_WORD, *phonemes.word_index, NO_WORD), phonemes.words
    )
