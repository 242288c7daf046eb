"""Public names and documented import paths keep working."""

from __future__ import annotations

import ast
import re
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import clock_attention

ROOT = Path(__file__).parents[1]
# Documented in 0.1.0. They may move, but these paths work until 1.0.
DOCUMENTED = {
    "clock_attention.alignment": ["durations", "measure_quality"],
    "clock_attention.timestamps": ["Alignment", "Interval", "save_timestamps"],
    "clock_attention.theory": ["RATIONAL", "NoisyClock", "OrnsteinUhlenbeck", "meeting_density", "meeting_kernel"],
    "clock_attention.cli": ["app", "main"],
    "clock_attention.speech.phonemes": ["phonemizer", "Phonemes", "HibariPhonemizer"],
    "clock_attention.speech.store": ["FeatureStore"],
    "clock_attention.speech.voice": ["Voice", "export", "opened_voice"],
    "clock_attention.speech.config": ["load_preset", "RunConfig", "ModelConfig"],
    "clock_attention.speech.training": ["train"],
    "clock_attention.speech.onnx_export": ["export_onnx"],
    "clock_attention.evaluation.chain": ["ChainSpec"],
    "clock_attention.evaluation.prompts": ["load_prompts"],
    "clock_attention.evaluation.session": ["Session"],
    "clock_attention.evaluation.systems": ["Length", "VoiceSystem"],
}


def test_the_public_names_are_these() -> None:
    assert {
        "ClockAttention",
        "ClockDecoderLayer",
        "ClockState",
        "clock_attention",
        "decoding_over",
        "swap_cross_attention",
    } == set(clock_attention.__all__)
    for name in clock_attention.__all__:
        assert getattr(clock_attention, name) is not None


def test_a_class_name_has_one_meaning() -> None:
    """No two modules define classes of the same name: a reader who sees one knows which it is."""
    homes: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src" / "clock_attention").rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(path.name)
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


@pytest.mark.parametrize("module", DOCUMENTED)
def test_documented_paths_of_earlier_versions_work(module: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = import_module(module)
        for name in DOCUMENTED[module]:
            assert getattr(found, name) is not None


def documented_imports() -> list[tuple[str, str]]:
    text = "\n".join(path.read_text("utf-8") for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])
    lines = re.findall(r"^from (clock_attention[\w.]*) import ([\w, ]+)$", text, flags=re.MULTILINE)
    return sorted({(module, name.strip()) for module, names in lines for name in names.split(",")})


@pytest.mark.parametrize(("module", "name"), documented_imports())
def test_imports_in_the_documentation_work_without_a_warning(module: str, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        assert getattr(import_module(module), name) is not None
