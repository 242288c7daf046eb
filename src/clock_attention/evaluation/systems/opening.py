"""Open systems by name: `NAME=FOLDER`, a voice, a training run, `copy:CORPUS`, or one of the teachers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from clock_attention.evaluation.systems.systems import CopySynthesis, Length, System, TeacherSystem, VoiceSystem
from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.voice.from_run import opened_voice

TEACHERS = ("teacher", "teacher-paced", "teacher-audio")


def open_systems(
    names: Sequence[str], length: Length, checkpoint: str, stack: ExitStack, whole: bool = False
) -> list[System]:
    """Open the systems to evaluate by name. A teacher uses the phonemizer and the mel of the first voice."""
    found: dict[int, System] = {}
    for place in sorted(range(len(names)), key=lambda place: split_name(names[place])[1] in TEACHERS):
        voices = [one for one in found.values() if isinstance(one, VoiceSystem)]
        reader = voices[0].voice.language.phonemizer if voices else "hibari"
        mel = voices[0].mel if voices else MelConfig.preset("hifigan")
        if split_name(names[place])[1] in TEACHERS:
            found[place] = open_teacher(names[place], length, reader, mel)
        else:
            found[place] = open_system(names[place], length, checkpoint, stack, whole)
    opened = [found[place] for place in range(len(names))]
    require_different_names(opened)
    return opened


def split_name(text: str) -> tuple[str, str]:
    """Split the name of a system: NAME=FOLDER, or only a folder, which may itself contain "="."""
    title, equals, path = text.partition("=")
    return (title, path) if equals and not Path(text).exists() else ("", text)


def open_teacher(name: str, length: Length, reader: str, mel: MelConfig) -> System:
    """Open one of the teachers by name as a system."""

    title, name = split_name(name)
    kind: dict[str, Any] = {"vocoded": name != "teacher-audio", "paced": name == "teacher-paced"}
    return TeacherSystem(mel, length, **kind, reader=reader, name=title)


def open_system(name: str, length: Length, checkpoint: str, stack: ExitStack, whole: bool = False) -> System:
    """Open one system by name: a voice, a run or `copy:CORPUS`."""
    title, name = split_name(name)
    if name.startswith("copy:"):
        if str(length) != "natural":
            raise ValueError("copy-synthesis has the length of its recordings; `teacher` can be compressed in time")
        return CopySynthesis(FeatureStore.open(name.removeprefix("copy:")), title or "copy-synthesis")
    voice = stack.enter_context(opened_voice(name, checkpoint))
    return VoiceSystem(voice, length, name=title or Path(name).resolve().name, whole=whole)


def require_different_names(systems: Sequence[System]) -> None:
    """Refuse two systems with the same name."""
    names = [one.name for one in systems]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two systems are called {name!r}: give each its own name, NAME=FOLDER")
