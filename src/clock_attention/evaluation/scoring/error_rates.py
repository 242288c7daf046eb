"""Word and character error rates, pooled over a corpus, and differences between two systems.

Texts and transcripts first pass through Whisper's English normalizer, as in the paper, so that different forms of
numbers, spellings and contractions are not errors. A rate is Σ errors / Σ words over all sentences, not the mean of
per-sentence rates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clock_attention.evaluation.optional_packages import needs
from clock_attention.evaluation.scoring.bootstrap import (
    RESAMPLES,
    ConfidenceInterval,
    bootstrap,
    percentile_interval,
    resampled_rates,
)

Measure = Literal["wer", "cer"]
BRACKETS = re.compile(r"[()\[\]<>]")


@dataclass(frozen=True)
class Counts:
    """Counts for error rates: the edits of the cheapest alignment between a text and its transcript."""

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def errors(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def length(self) -> int:
        """Length of the reference."""
        return self.hits + self.substitutions + self.deletions

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.hits + other.hits,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )


@dataclass(frozen=True)
class SentenceScore:
    """Word and character errors of one sentence, with the normalized texts that were compared."""

    reference: str
    hypothesis: str
    words: Counts
    chars: Counts
    repeats: int

    @property
    def skips(self) -> int:
        """Number of words of the text that are missing from the transcript."""
        return self.words.deletions


@dataclass(frozen=True)
class Score:
    """Word and character error rates of a system on a list of sentences."""

    sentences: tuple[SentenceScore, ...]
    resamples: int = RESAMPLES
    seed: int = 0

    @cached_property
    def words(self) -> Counts:
        return sum((sentence.words for sentence in self.sentences), Counts())

    @cached_property
    def chars(self) -> Counts:
        return sum((sentence.chars for sentence in self.sentences), Counts())

    @cached_property
    def wer(self) -> ConfidenceInterval:
        return self.interval("wer")

    @cached_property
    def cer(self) -> ConfidenceInterval:
        return self.interval("cer")

    @property
    def skips(self) -> int:
        return sum(sentence.skips for sentence in self.sentences)

    @property
    def repeats(self) -> int:
        return sum(sentence.repeats for sentence in self.sentences)

    def interval(self, measure: Measure) -> ConfidenceInterval:
        errors, lengths = self.arrays(measure)
        return bootstrap(errors, lengths, resamples=self.resamples, seed=self.seed)

    def arrays(self, measure: Measure) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(errors, length) of each sentence, in words or characters."""
        counts = [s.words if measure == "wer" else s.chars for s in self.sentences]
        return np.array([c.errors for c in counts]), np.array([c.length for c in counts])

    def to_json(self) -> dict[str, Any]:
        """The pooled numbers, without the sentences."""
        return {
            "sentences": len(self.sentences),
            "wer": asdict(self.wer),
            "cer": asdict(self.cer),
            "words": asdict(self.words),
            "chars": asdict(self.chars),
            "skips": self.skips,
            "repeats": self.repeats,
        }


def score_sentences(
    references: Sequence[str], hypotheses: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 0
) -> Score:
    """Error rates of transcripts: each text is compared with its transcript."""
    if len(references) != len(hypotheses) or not references:
        raise ValueError(
            f"expected as many transcripts as texts and at least one, got {len(hypotheses)} for {len(references)}"
        )
    normalized = [require_words(text) for text in references]
    return Score(tuple(align(normalized, [normalize_transcript(text) for text in hypotheses])), resamples, seed)


@cache
def _normalizer() -> Any:
    """Whisper's English text normalizer for error rates, loaded once."""
    return needs("whisper_normalizer.english", extra="evaluation").EnglishTextNormalizer()


def normalize_transcript(text: str) -> str:
    """Normalize a transcript for error rates: typographic apostrophes, then Whisper's English normalization."""
    normalized = str(_normalizer()(text.replace("’", "'")))
    return normalized if any(letter.isalnum() for letter in normalized) else ""


def require_words(reference: str) -> str:
    """Normalize a reference text for error rates; refuse it if no words remain, since the normalizer drops "um".

    Text in brackets is kept, as it is spoken; the normalizer, made for transcripts, would drop it.
    """
    normalized = normalize_transcript(BRACKETS.sub(" ", reference))
    if not normalized:
        raise ValueError(f"the text {reference!r} has no words to compare with: leave it out of the prompts")
    return normalized


def align(references: Sequence[str], hypotheses: Sequence[str]) -> list[SentenceScore]:
    """Scores from Levenshtein alignments of normalized texts and transcripts, in words and in characters."""
    jiwer = needs("jiwer", extra="evaluation")
    words = jiwer.process_words(list(references), list(hypotheses))
    chars = jiwer.process_characters(list(references), list(hypotheses))
    return [
        SentenceScore(
            reference,
            hypothesis,
            count(word_chunks),
            count(char_chunks),
            count_repeats(spoken, word_chunks),
        )
        for reference, hypothesis, spoken, word_chunks, char_chunks in zip(
            references, hypotheses, words.hypotheses, words.alignments, chars.alignments, strict=True
        )
    ]


def count(chunks: Sequence[Any]) -> Counts:
    """Counts for error rates from jiwer's runs of equal, substituted, deleted and inserted items."""
    total = dict.fromkeys(("equal", "substitute", "delete", "insert"), 0)
    for chunk in chunks:
        total[chunk.type] += max(chunk.ref_end_idx - chunk.ref_start_idx, chunk.hyp_end_idx - chunk.hyp_start_idx)
    return Counts(total["equal"], total["substitute"], total["delete"], total["insert"])


def count_repeats(spoken: Sequence[str], chunks: Sequence[Any]) -> int:
    """Number of inserted words in a transcript that repeat their neighbours: "the the cat", "the cat the cat".

    The alignment may place inserted words anywhere within a repetition ("the [cat the] cat"). An inserted word counts
    if it lies in any stretch whose first half equals its second.
    """
    inserted = [
        place for chunk in chunks if chunk.type == "insert" for place in range(chunk.hyp_start_idx, chunk.hyp_end_idx)
    ]
    return sum(lies_in_repetition(spoken, place) for place in inserted)


def lies_in_repetition(words: Sequence[str], place: int) -> bool:
    """Whether a word of a transcript lies in a repetition: a stretch whose two halves are equal."""
    return any(
        words[start : start + half] == words[start + half : start + 2 * half]
        for half in range(1, len(words) // 2 + 1)
        for start in range(max(0, place - 2 * half + 1), min(place, len(words) - 2 * half) + 1)
    )


def difference(first: Score, second: Score, measure: Measure = "wer") -> ConfidenceInterval:
    """Error rate of the first system minus the second's on the same sentences, resampled in pairs."""
    texts, others = ([sentence.reference for sentence in score.sentences] for score in (first, second))
    if texts != others:
        raise ValueError(
            f"a paired difference needs the same sentences in the same order, got {len(texts)} and {len(others)} "
            "that do not match: score both systems on one list of prompts"
        )
    (errors, lengths), (other_errors, _) = first.arrays(measure), second.arrays(measure)
    return bootstrap(errors - other_errors, lengths, resamples=first.resamples, seed=first.seed)


def unpaired_difference(first: Score, second: Score, measure: Measure = "wer") -> ConfidenceInterval:
    """Error rate of the first system minus the second's on different sentences, resampled independently."""
    arrays = first.arrays(measure), second.arrays(measure)
    one, other = (
        resampled_rates(*errors_and_lengths, first.resamples, seed)
        for errors_and_lengths, seed in zip(arrays, (first.seed, first.seed + 1), strict=True)
    )
    estimates = [float(errors.sum() / lengths.sum()) for errors, lengths in arrays]
    return percentile_interval(estimates[0] - estimates[1], one - other)
