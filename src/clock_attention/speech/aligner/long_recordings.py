"""Alignment of long recordings: tracked in their text as a stream, cut into pieces and aligned piece by piece.

`Follower` assigns, with a lag, each frame to a word; `Cutter` cuts in silences between words, once the words around
them are certain; each piece is aligned with its words. Only a few blocks and the result are held in memory, and the
time is linear in the length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np

from clock_attention.speech.aligner.emissions import Emissions
from clock_attention.speech.aligner.features import FRAME_SECONDS, RATE
from clock_attention.speech.aligner.long_emissions import POOL, Waiting, block_emissions, pooled
from clock_attention.speech.aligner.long_joining import Joined
from clock_attention.speech.aligner.long_pieces import Cutter, Piece
from clock_attention.speech.aligner.long_tracking import Follower, TextStates
from clock_attention.speech.aligner.phone_classes import PLACE, sounds
from clock_attention.speech.aligner.results import AlignedRecording, AlignmentError
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.text.phonemes import NO_WORD, Phonemes

STEP = POOL * FRAME_SECONDS
BAND = 4000  # states of the text that are tracked at a time: about four minutes of speech
LAG = 4000  # steps after which a decision is final: 40 s


class LongAligner(Protocol):
    """The part of an aligner's interface that long recordings need."""

    @property
    def threshold(self) -> float: ...
    def emissions(self, wave: Wave) -> Emissions: ...
    def align_emissions(self, emissions: Emissions, phonemes: Phonemes, duration: float) -> AlignedRecording: ...


def align_long(
    aligner: LongAligner,
    audio: Iterable[Wave],
    phonemes: Phonemes,
    report: Callable[[float], None] = lambda seconds: None,
) -> AlignedRecording:
    """Align a long recording, given as a stream of 16 kHz samples in blocks of any size.

    Args:
        report: called with the seconds processed so far.
    """
    states = TextStates.of(word_classes(phonemes))
    follower, cutter = Follower(states, silence=0, band=BAND, lag=LAG), Cutter(states)
    joined = Joined(phonemes.words, aligner.threshold)
    waiting, quiet = Waiting(), np.zeros(0, dtype=bool)
    samples = frames = 0

    def align(pieces: Iterator[Piece]) -> None:
        for piece in pieces:
            emissions = waiting.take((piece.end - piece.start) * POOL)
            start, end = piece.start * STEP, piece.end * STEP
            if piece.first < piece.stop:
                try:
                    part = aligner.align_emissions(
                        emissions, some_words(phonemes, piece.first, piece.stop), end - start
                    )
                except AlignmentError:  # too many words for the duration
                    joined.add_wordless(start, end, piece.stop, speech=True)
                else:
                    joined.add(part, start, piece.first, piece.stop)
            else:
                joined.add_wordless(start, end, piece.first, speech=piece.speech)

    def counted() -> Iterator[Wave]:
        nonlocal samples
        for block in audio:
            samples += len(block)
            yield block

    for emissions in block_emissions(aligner.emissions, counted()):
        waiting.append(emissions)
        frames += len(emissions.change_logits)
        steps = pooled(emissions)
        quiet = np.concatenate([quiet, steps[:, 0] >= steps[:, 1:].max(1)])
        path = follower.feed(steps)
        align(cutter.cut(path, quiet[: len(path)]))
        quiet = quiet[len(path) :]
        report(frames * FRAME_SECONDS)
    if not samples:
        raise AlignmentError("the recording is empty: there is nothing to align")
    align(cutter.cut(follower.finish(), quiet))
    align(cutter.finish())
    return joined.recording(samples / RATE)


def word_classes(phonemes: Phonemes) -> list[list[int]]:
    """Sounds of each word for long recordings, as columns of the emissions from `pooled`."""
    words: list[list[int]] = [[] for _ in phonemes.words]
    for sound, word in zip(sounds(phonemes.tokens, phonemes.word_index), phonemes.word_index, strict=True):
        if sound is not None:
            words[word].append(PLACE[sound.name])
    return words


def some_words(phonemes: Phonemes, first: int, stop: int) -> Phonemes:
    """Phonemes of a piece of a long recording: words `first` … `stop`−1, with the boundaries between and after them."""
    index = np.array(phonemes.word_index)
    inside = np.flatnonzero((index >= first) & (index < stop))
    begin, end = int(inside[0]), int(inside[-1]) + 1
    if end < len(index) and index[end] == NO_WORD:
        end += 1
    words = tuple(int(word) - first if word != NO_WORD else NO_WORD for word in index[begin:end])
    return Phonemes(phonemes.tokens[begin:end], words, phonemes.words[first:stop])
