"""The tables of README and docs, one function for each, by subject; importing them fills `MADE`."""

from measured import alignment, library, speech, texts, voices
from measured.writing import MADE

__all__ = ["MADE", "alignment", "library", "speech", "texts", "voices"]
