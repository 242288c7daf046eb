"""Exported voices on ONNX Runtime, without torch: text in, sound and timestamps out.

from clock_attention.runtime import load

voice = load("voice")                       # made by `clock-attention export --runtime default voice`
voice.speak("Hello there.", duration=2.0).save("hello.wav")
"""

from clock_attention.runtime.folder import RuntimeVoiceError
from clock_attention.runtime.speech import RuntimeSpeech
from clock_attention.runtime.voice import RuntimeVoice, load

__all__ = ["RuntimeSpeech", "RuntimeVoice", "RuntimeVoiceError", "load"]
