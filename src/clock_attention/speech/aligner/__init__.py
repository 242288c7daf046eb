"""Forced alignment: the times of the words and phones of a known text in a recording.

from clock_attention.speech.aligner import Aligner

aligned = Aligner.load().align("speech.wav", "The transcript.")
for word in aligned.words:
    print(word.start, word.end, word.label, word.confidence)
"""

from clock_attention.speech.aligner.aligner import Aligner
from clock_attention.speech.aligner.results import AlignedInterval, AlignedRecording, AlignmentError, Flag, TokenTimes

__all__ = ["AlignedInterval", "AlignedRecording", "Aligner", "AlignmentError", "Flag", "TokenTimes"]
