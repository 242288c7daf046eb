"""Recordings that the fake aligner understands, and what the command has written."""

from __future__ import annotations

import soundfile

from tests.speech.aligner.coded import coded_speech

TEXT = "Dr. Smith paid $5 on the 3rd, so the WELL-KNOWN blorptag left."


WORDS = ["Dr.", "Smith", "paid", "$5", "on", "the", "3rd", "so", "the", "WELL", "KNOWN", "blorptag", "left"]


OTHER = "She had your dark suit in greasy wash water all year."


def record(path, text=TEXT, seed=0):
    speech = coded_speech(text, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, speech.wave, 16000, subtype="FLOAT" if path.suffix == ".wav" else None)
    return speech


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.name != ".lock")


def printed(result):
    return " ".join(result.output.split())


def labels(tier):
    return [interval.label for interval in tier if interval.label]
