"""The tables of README and docs, one function for each, by subject; importing them fills `writing.MADE`."""

from measured import alignment, library, speech, texts, voices

__all__ = ["alignment", "library", "speech", "texts", "voices"]
