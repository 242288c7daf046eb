"""Split long text into phrases of varied length, for corpora."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

RE_CLAUSE_END = re.compile(r"(?<=[,;:.!?…—])\s+|(?<=[—])")


def split_phrases(text: str, shortest: int, longest: int, seed: int | str = 0) -> Iterator[str]:
    """Split text into phrases of varied length for a corpus, at punctuation where possible, else between words.

    Each phrase aims for a length drawn uniformly from shortest…longest letters, so that a corpus covers short and long
    utterances alike; only the rest at the end of a text may be shorter.
    """
    if not 0 < shortest <= longest:
        raise ValueError(f"phrase lengths must satisfy 0 < shortest <= longest, got {shortest} and {longest}")
    draw = random.Random(f"phrases:{seed}")
    clauses = [clause for clause in RE_CLAUSE_END.split(re.sub(r"\s+", " ", text).strip()) if clause]
    phrase, aim = "", draw.randint(shortest, longest)
    for piece in [piece for clause in clauses for piece in _pieces(clause, shortest, longest)]:
        joined = f"{phrase} {piece}".strip()
        if (phrase and len(joined) > max(aim, shortest) and len(phrase) >= shortest) or (
            len(joined) > longest and phrase
        ):
            yield phrase
            phrase, aim = piece, draw.randint(shortest, longest)
        else:
            phrase = joined
    if phrase:
        yield phrase


def _pieces(clause: str, shortest: int, longest: int) -> list[str]:
    """Split a clause that is too long into phrases of about equal length, between words."""
    parts = -(-len(clause) // longest)
    if parts == 1:
        return [clause]
    words, pieces, current = clause.split(" "), [], ""
    target = max(shortest, len(clause) // parts)
    for word in words:
        if current and len(current) + 1 + len(word) > target + 5:
            pieces.append(current)
            current = word
        else:
            current = f"{current} {word}".strip()
    return [*pieces, current]
