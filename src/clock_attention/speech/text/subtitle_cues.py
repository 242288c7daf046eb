"""Readable subtitle cues: whole words, at most two lines of 42 characters and seven seconds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clock_attention.timestamps import Interval

LONGEST = 84  # characters
MOST_SECONDS = 7.0
CLAUSE_ENDS = ",;:.!?…—)\"'”’"


class TimedText(NamedTuple):
    """A word for a subtitle cue, with the text up to the next word, and its time."""

    text: str
    start: float
    end: float


def readable_cues(sentences: Sequence[Interval], words: Sequence[Interval]) -> list[Interval]:
    """Subtitle cues of sentences; long ones are split between words, after punctuation if there is any nearby."""
    cues: list[Interval] = []
    place = 0
    for sentence in sentences:
        first = place
        while place < len(words) and words[place].start < sentence.end - 1e-6:
            place += 1
        cues += sentence_cues(sentence, words[first:place])
    return cues


def sentence_cues(sentence: Interval, words: Sequence[Interval]) -> list[Interval]:
    """Subtitle cues of one sentence."""
    text = " ".join(sentence.label.split())
    if not words or (len(text) <= LONGEST and sentence.end - sentence.start <= MOST_SECONDS):
        return [Interval(sentence.start, sentence.end, text)]
    pieces = list(written_pieces(text, words))
    cues: list[Interval] = []
    while pieces:
        count = cue_length(pieces)
        cue = pieces[:count]
        pieces = pieces[count:]
        cues.append(Interval(cue[0].start, max(cue[-1].end, cue[0].start), " ".join(piece.text for piece in cue)))
    return cues


def written_pieces(text: str, words: Sequence[Interval]) -> Iterator[TimedText]:
    """Words for subtitle cues as written in the sentence, with punctuation; words longer than a cue are split."""
    starts: list[int] = []
    reached = 0
    for word in words:
        found = text.find(word.label, reached) if word.label else -1
        starts.append(reached if found < 0 else found)
        reached = starts[-1] + (len(word.label) if found >= 0 else 0)
    starts[0] = 0
    for word, start, stop in zip(words, starts, [*starts[1:], len(text)], strict=True):
        written = text[start:stop].strip()
        parts = max(-(-len(written) // LONGEST), math.ceil((word.end - word.start) / MOST_SECONDS), 1)
        size = max(1, -(-len(written) // parts))
        seconds = (word.end - word.start) / parts
        for part in range(parts):
            piece = written[part * size : (part + 1) * size].strip()
            yield TimedText(piece, word.start + part * seconds, word.start + (part + 1) * seconds)


def cue_length(pieces: Sequence[TimedText]) -> int:
    """The number of words, or parts of split words, in the next subtitle cue."""
    length, most = -1, 0
    for piece in pieces:
        length += 1 + len(piece.text)
        if most and (length > LONGEST or piece.end - pieces[0].start > MOST_SECONDS):
            break
        most += 1
    if most == len(pieces):
        return most
    ends = [
        count for count in range(1, most + 1) if pieces[count - 1].text[-1:] in CLAUSE_ENDS and pieces[count - 1].text
    ]
    return ends[-1] if ends and ends[-1] > most // 3 else most
