"""The folder of an exported voice: data that the runtime reads, without executable code.

VOICE/runtime.json   symbols, phonemizer, pace, mel
VOICE/text.onnx      phonemes → encoded text and durations
VOICE/frames.onnx    encoded text along durations → log-mel
VOICE/vocoder.onnx   log-mel → waveform
VOICE/lexicon.toml   optional: words with custom pronunciations
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

FORMAT = 1
CARD, TEXT, FRAMES, VOCODER, LEXICON = "runtime.json", "text.onnx", "frames.onnx", "vocoder.onnx", "lexicon.toml"
WAVE, HARMONIC = "wave", "harmonic"  # types of vocoder
MOST_BYTES = 1_000_000  # maximum size of the card


class RuntimeVoiceError(ValueError):
    """A folder that is not an exported voice of the runtime, or not one that this version can use."""


@dataclass(frozen=True)
class RuntimeCard:
    """Contents of `runtime.json`, in the folder of an exported voice."""

    format: int
    symbols: tuple[str, ...]
    phonemizer: str
    mpr: float  # mel frames per phoneme of natural speech
    sample_rate: int
    hop_length: int
    log_floor: float
    pitch_std: float | None  # of the natural log of F0; None if the voice does not specify it
    longest_phrase: int
    vocoder: str
    vocoder_context: int  # mel frames on each side that a sample depends on
    corpus: str
    licence: str
    consent: str | None = None  # of the person whose voice it is


NUMBERS = {
    "mpr": (0.01, 1000.0),
    "sample_rate": (1000, 1_000_000),
    "hop_length": (1, 100_000),
    "log_floor": (1e-30, 1.0),
    "longest_phrase": (2, 100_000),
    "vocoder_context": (0, 10_000),
}


def read_card(folder: Path) -> RuntimeCard:
    """Read and validate `runtime.json` in the folder of an exported voice."""
    path = folder / CARD
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RuntimeVoiceError(
            f"{folder}: not an exported voice ({CARD}: {error.strerror}); make one with "
            "`clock-attention export --runtime default FOLDER`"
        ) from None
    try:
        table = json.loads(content) if len(content) <= MOST_BYTES else None
    except (ValueError, RecursionError):
        table = None
    names = {field.name for field in fields(RuntimeCard)}
    if not isinstance(table, dict) or not names - {"consent"} <= set(table) <= names:
        raise RuntimeVoiceError(f"{path}: not the description of an exported voice; export it again")
    if table["format"] != FORMAT:
        raise RuntimeVoiceError(f"{path}: format {table['format']!r}, this version reads {FORMAT}: export it again")
    for name, (least, most) in NUMBERS.items():
        value = table[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise RuntimeVoiceError(f"{path}: {name} is {value!r}, expected {least:g} … {most:g}")
    if table["vocoder"] not in (WAVE, HARMONIC):
        raise RuntimeVoiceError(f"{path}: vocoder is {table['vocoder']!r}, expected {WAVE!r} or {HARMONIC!r}")
    symbols = table["symbols"]
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise RuntimeVoiceError(f"{path}: symbols must be a list of texts")
    return RuntimeCard(**{**table, "symbols": tuple(symbols)})
