"""A trained model as a voice: its folder, speaking, timestamps, figures, ONNX."""

from typing import TYPE_CHECKING

from clock_attention.lazy import attach

if TYPE_CHECKING:
    from clock_attention.speech.voice.from_run import export, opened_voice
    from clock_attention.speech.voice.voice import Voice
    from clock_attention.speech.voice.voice_folder import VoiceError

__all__ = ["Voice", "VoiceError", "export", "opened_voice"]

__getattr__ = attach(
    __name__, {"Voice": "voice", "VoiceError": "voice_folder", "export": "from_run", "opened_voice": "from_run"}
)
