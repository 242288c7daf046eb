"""Find words of a text that no recognizer heard: missing from transcripts, and phones not recognized at their times.

Words are matched by their letters, without spaces: a recognizer that writes "FBI" for "F B I", or "555" for "five five
five", has heard every word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clock_attention.evaluation.optional_packages import needs
from clock_attention.evaluation.scoring.error_rates import normalize_transcript

MARGIN = 0.08  # seconds around a word in which its phones may lie; recognizers place boundaries no better
VOWELS = frozenset(["AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"])


class TimedPhone(NamedTuple):
    """A phone that a recognizer found, in ARPAbet, with its times in seconds."""

    phone: str
    start: float
    end: float


def words_not_in(transcript: str, words: Sequence[str]) -> set[int]:
    """Indices of the words with fewer than half of their letters matched in the transcript.

    A word that was heard as another one of similar length is not included.
    """
    jiwer = needs("jiwer", extra="evaluation")
    spellings = [letters(word) for word in words]
    reference, output = "".join(spellings), letters(transcript)
    if not reference or not output:
        return {place for place, spelling in enumerate(spellings) if spelling}
    aligned = jiwer.process_characters(reference, output).alignments[0]
    kept = {
        place
        for chunk in aligned
        if chunk.type in ("equal", "substitute")
        for place in range(chunk.ref_start_idx, chunk.ref_end_idx)
    }
    missing, begin = set(), 0
    for place, spelling in enumerate(spellings):
        if 2 * sum(begin + n in kept for n in range(len(spelling))) < len(spelling):
            missing.add(place)
        begin += len(spelling)
    return missing


def letters(text: str) -> str:
    """Letters and digits of a text for comparing transcripts; "sheikh's" does not contain "is", and "one" is 1."""
    words = normalize_transcript(text.replace("'", "").replace("’", "")).split()
    spelled = "".join("1" if word == "one" else word for word in words)  # the normalizer writes all others in digits
    return "".join(character for character in spelled if character.isalnum())


def phones_heard(expected: Sequence[str], found: Iterable[TimedPhone], start: float, end: float) -> bool:
    """Whether at least half of a word's phones were recognized, in order, between these times.

    All vowels count as the same phone: phone recognizers confuse them even in clear speech.
    """
    near = [one.phone for one in found if one.end > start - MARGIN and one.start < end + MARGIN]
    ours, theirs = ([as_class(phone) for phone in phones] for phones in (expected, near))
    row = [0] * (len(theirs) + 1)  # longest common subsequence
    for one in ours:
        above = row
        row = [0]
        for place, other in enumerate(theirs):
            row.append(above[place] + 1 if one == other else max(row[-1], above[place + 1]))
    return 2 * row[-1] >= len(ours)


def as_class(phone: str) -> str:
    """The class of a phone for comparing recognizers: all vowels are one class."""
    return "vowel" if phone.rstrip("012") in VOWELS else phone
