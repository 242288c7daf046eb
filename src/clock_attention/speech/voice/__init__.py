"""A trained model as a voice: its folder, speaking, timestamps, figures, ONNX."""

from typing import TYPE_CHECKING

from clock_attention.lazy import attach

if TYPE_CHECKING:
    from clock_attention.speech.voice.voice import Voice, VoiceError, export, opened_voice

__all__ = ["Voice", "VoiceError", "export", "opened_voice"]

__getattr__ = attach(__name__, {"Voice": "voice", "VoiceError": "voice", "export": "voice", "opened_voice": "voice"})
