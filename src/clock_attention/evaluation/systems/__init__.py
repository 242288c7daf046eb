"""Systems under evaluation: voices, recordings and teachers that speak the prompts."""

from typing import TYPE_CHECKING

from clock_attention.lazy import attach

if TYPE_CHECKING:
    from clock_attention.evaluation.systems.systems import CopySynthesis, Length, TeacherSystem, VoiceSystem

__all__ = ["CopySynthesis", "Length", "TeacherSystem", "VoiceSystem"]

__getattr__ = attach(
    __name__, {"Length": "systems", "VoiceSystem": "systems", "CopySynthesis": "systems", "TeacherSystem": "systems"}
)
