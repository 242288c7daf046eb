"""Systems by name."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from clock_attention.evaluation.systems.opening import open_systems, split_name
from clock_attention.evaluation.systems.systems import CopySynthesis, Length, TeacherSystem
from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.loop import train
from clock_attention.speech.voice.from_run import opened_voice
from tests.evaluation.conftest import MEL, write_voice
from tests.speech.corpora import tiny_store


def test_a_run_is_opened_like_a_voice(tmp_path: Path) -> None:
    changes = ["width=16", "heads=2", "encoder_layers=1", "decoder_layers=1", "feed_forward=16", "steps=2"]
    changes += ["batch_size=8", "validate_every=2", "pictures=0", "validation_utterances=2"]
    train(load_preset("small-l1").changed(changes), tiny_store(tmp_path / "store"), tmp_path / "run", quiet=True)
    with opened_voice(tmp_path / "run") as voice:
        assert voice.card.provenance.steps == 2
        folder = voice.path
        assert folder.exists()
    assert not folder.exists()


def test_names_and_folders(tmp_path: Path) -> None:
    assert split_name("clock=voices/a") == ("clock", "voices/a")
    assert split_name("default") == ("", "default")
    (tmp_path / "a=b").mkdir()
    assert split_name(str(tmp_path / "a=b")) == ("", str(tmp_path / "a=b"))


def test_a_teacher_has_the_mel_of_the_first_voice_wherever_it_stands(tmp_path: Path) -> None:
    voice = write_voice(tmp_path / "voice")
    with ExitStack() as stack:
        teacher, mine = open_systems(["teacher", f"mine={voice}"], Length(mpr=5), "best", stack)
    assert isinstance(teacher, TeacherSystem)
    assert (teacher.mel, mine.name, str(mine.length)) == (MEL, "mine", "MPR 5")


def test_systems_of_one_name_and_lengths_of_recordings_are_refused(tmp_path: Path) -> None:
    voice = str(write_voice(tmp_path / "voice"))
    tiny_store(tmp_path / "store")
    copy = f"copy:{tmp_path / 'store'}"
    with ExitStack() as stack:
        with pytest.raises(ValueError, match="two systems are called 'voice'"):
            open_systems([voice, voice], Length(), "best", stack)
        with pytest.raises(ValueError, match="copy-synthesis has the length of its recordings"):
            open_systems([copy], Length(mpr=4), "best", stack)
        (found,) = open_systems([copy], Length(), "best", stack)
    assert isinstance(found, CopySynthesis)
