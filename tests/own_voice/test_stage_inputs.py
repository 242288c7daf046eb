"""A stage is repeated for what it depends on, and for nothing else."""

from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch

from clock_attention.own_voice.stage_inputs import gathering_inputs, start_digest
from clock_attention.speech.corpus.sources import find_sources
from clock_attention.speech.voice.from_run import start_from


@pytest.fixture(scope="module")
def start(base):
    return start_from(str(base))


@pytest.mark.parametrize(
    ("seconds", "text", "heard_by", "cut_by"),
    [(2, "Hello.", None, None), (2, None, "parrot", None), (30, "Hello.", None, "ruler"), (30, None, "parrot", None)],
)
def test_recognizer_and_aligner_count_only_where_they_are_asked(seconds, text, heard_by, cut_by, start, tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(seconds * 8000), 8000)
    if text:
        (tmp_path / "a.txt").write_text(text)
    inputs = gathering_inputs(*find_sources(tmp_path), start, "parrot", "ruler")
    assert (inputs["recognizer"], inputs["aligner"]) == (heard_by, cut_by)


def test_another_text_or_sound_is_another_input(start, tmp_path):
    found = []
    for seconds, text in ((2, "Hello."), (3, "Hello."), (3, "Hello?")):
        soundfile.write(tmp_path / "a.wav", np.zeros(seconds * 8000), 8000)
        (tmp_path / "a.txt").write_text(text)
        found.append(gathering_inputs(*find_sources(tmp_path), start, "parrot", "ruler")["sources"][0])
    assert len({(str(row[1]), row[3]) for row in found}) == 3


def test_a_start_is_known_by_its_weights(start):
    name = next(iter(start.weights))
    other = replace(start, weights={**start.weights, name: torch.zeros_like(start.weights[name])})
    assert start_digest(start) != start_digest(other)
    assert start_digest(start) == start_digest(replace(start))
