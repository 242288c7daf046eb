"""Moved to `clock_attention.speech.text`; this path works until 1.0."""

from clock_attention.lazy import moved

__getattr__ = moved(
    __name__,
    "clock_attention.speech.text.phonemizers",
    "clock_attention.speech.text.phonemes",
    "clock_attention.speech.text.hibari",
)
