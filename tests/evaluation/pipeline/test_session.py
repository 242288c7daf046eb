"""What the evaluations of one command share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clock_attention.evaluation.pipeline.session import Session, launched, shared_mel
from clock_attention.evaluation.systems.systems import TeacherSystem, VoiceSystem
from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.voice.voice import Voice
from tests.evaluation.conftest import MEL, PROMPTS, FakeSource

MakeVoice = Callable[..., Voice]


def test_systems_that_need_different_vocoders_are_refused(make_voice: MakeVoice) -> None:
    voice = VoiceSystem(make_voice())
    assert shared_mel([voice, voice]) == MEL
    with pytest.raises(ValueError, match="different mel definitions"):
        shared_mel([voice, TeacherSystem(MelConfig.preset("hifigan"))])


def test_evaluations_of_a_session_share_chain_and_cache(make_voice: MakeVoice, tmp_path: Path) -> None:
    system, source = VoiceSystem(make_voice()), FakeSource()
    with Session(source, tmp_path / "out", keep_audio=True) as session:
        assert session.leads
        first = session.evaluate(system, PROMPTS)
        assert session.evaluate(system, PROMPTS) == first
    assert source.vocoder.calls == len(PROMPTS)
    assert len(list((tmp_path / "out" / "audio").iterdir())) == len(PROMPTS)


def test_a_file_is_no_folder_for_results(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(NotADirectoryError, match="is a file, expected a folder"):
        Session(FakeSource(), tmp_path / "out")


def test_one_process_needs_no_fabric() -> None:
    assert launched(1, 1) is None
