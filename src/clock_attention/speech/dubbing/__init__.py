"""Dubbing: subtitles spoken in their time slots."""

from typing import TYPE_CHECKING

from clock_attention.lazy import attach

if TYPE_CHECKING:
    from clock_attention.speech.dubbing.subtitles import Cue, read_subtitles
    from clock_attention.speech.dubbing.track import DubOptions, dub

__all__ = ["Cue", "DubOptions", "dub", "read_subtitles"]

__getattr__ = attach(
    __name__, {"Cue": "subtitles", "read_subtitles": "subtitles", "DubOptions": "track", "dub": "track"}
)
