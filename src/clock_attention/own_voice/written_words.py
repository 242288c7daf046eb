"""Words of a recording to be cut, as written in its text: the aligner's words have no punctuation."""

from __future__ import annotations

import re
from bisect import bisect_right

from clock_attention.speech.corpus.cutting import TimedWord

NEAR = 8  # words of the text that are searched for the next one
ATTACHED = re.compile(r"[^\w\s]*")  # punctuation after a word
PLAIN = str.maketrans("\u2018\u2019\u02bc\u201c\u201d\u2010\u2011", "'''\"\"--")  # as in the aligner's words


def written(words: list[TimedWord], text: str) -> list[TimedWord]:
    """Gathered words as they appear in the text, with the punctuation that follows them and shows where to pause.

    A word that does not appear in the text (a number that was written out) stays as it is. Words without a space
    between them, like 5 and %, become one. Text that is not among the words was not spoken and is left out.
    """
    plain = folded(text)
    ends = [found.end() for found in re.finditer(r"\w+", plain)]
    places: list[int | None] = []
    reached = missed = 0
    for word in words:
        near = bisect_right(ends, reached) + NEAR + missed
        until = ends[near] if near < len(ends) else len(plain)
        found = re.compile(whole_word(folded(word.text))).search(plain, reached, until)
        places.append(found.start() if found else None)
        reached, missed = (found.end(), 0) if found else (reached, missed + 1)
    result: list[TimedWord] = []
    touches = False  # whether the previous word touches this one
    for place, after, word in zip(places, [*places[1:], len(text)], words, strict=True):
        if place is None:
            result.append(word)
            touches = False
            continue
        end = place + len(word.text)
        between = "" if after is None else text[end:after]
        alone = after is None or any(c.isalnum() for c in between)
        behind = ATTACHED.match(text, end).group() if alone else between  # type: ignore[union-attr]
        start, label = word.start, text[place:end] + behind.rstrip()
        if touches:
            before = result.pop()
            start, label = before.start, before.text + label
        result.append(TimedWord(start, word.end, label))
        touches = end == after
    return result


def whole_word(word: str) -> str:
    """Pattern that matches a gathered word as a whole word; after a sign like %, anything may follow."""
    before, behind = (r"(?<!\w)" if word[0].isalnum() else "", r"(?!\w)" if word[-1].isalnum() else "")
    return before + re.escape(word) + behind


def folded(text: str) -> str:
    """Gathered or written words in lower case with plain punctuation; every character keeps its position."""
    return "".join(c.casefold() if len(c.casefold()) == 1 else c for c in text.translate(PLAIN))
