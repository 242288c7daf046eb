"""The rules that find and read each kind of token, in the order in which they are tried."""

from __future__ import annotations

from clock_attention.speech.text.rules import (
    abbreviations,
    dates,
    letters,
    mathematics,
    money,
    numbers,
    places,
    telephones,
    times,
    web,
    words,
)
from clock_attention.speech.text.tokens import Rule

RULES: tuple[Rule, ...] = (
    *words.COMMON,
    *words.BREAKS,
    *web.RULES,
    *telephones.RULES,
    *places.RULES,
    *dates.RULES,
    *times.RULES,
    *web.VERSIONS,
    *money.RULES,
    *numbers.RULES,
    *mathematics.RULES,
    *abbreviations.RULES,
    *letters.RULES,
    *words.RULES,
    *numbers.LEFT_OVER,
)
