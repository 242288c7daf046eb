"""Moved to `clock_attention.speech.voice.onnx_export`; this path works until 1.0."""

from clock_attention.lazy import moved

__getattr__ = moved(__name__, "clock_attention.speech.voice.onnx_export")
