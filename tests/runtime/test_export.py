"""Writing a folder for the runtime: complete or not at all."""

import pytest

pytest.importorskip("onnx", reason="needs the extra clock-attention[onnx]")

from clock_attention.runtime import export
from clock_attention.runtime.export import export_runtime
from clock_attention.runtime.folder import read_card
from clock_attention.speech.voice.voice import Voice
from tests.speech.voices import tiny_aligned_voice, tiny_voice


@pytest.fixture
def voice(tmp_path):
    return Voice.load(tiny_aligned_voice(tmp_path / "voice"))


def test_the_folder_holds_graphs_card_and_lexicon(voice, tmp_path):
    (voice.path / "lexicon.toml").write_text('Siobhan = "/ʃɪˈvɔːn/"')
    folder = export_runtime(voice, tmp_path / "out", vocoder="fast")
    names = {"runtime.json", "text.onnx", "frames.onnx", "vocoder.onnx", "lexicon.toml"}
    assert {path.name for path in folder.iterdir()} == names
    assert read_card(folder).symbols == voice.language.symbols
    with pytest.raises(ValueError, match="exists already; choose another name"):
        export_runtime(voice, folder)


def test_what_fails_on_the_way_leaves_nothing(voice, tmp_path, monkeypatch):
    monkeypatch.setattr(export.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        export_runtime(voice, tmp_path / "out", vocoder="fast")
    assert [path.name for path in tmp_path.iterdir()] == ["voice"]


def test_voices_and_vocoders_that_it_cannot_run_are_refused(voice, tmp_path):
    with (
        pytest.raises(ValueError, match="'griffin-lim' cannot be exported"),
        pytest.warns(UserWarning, match="metallic"),
    ):
        export_runtime(voice, tmp_path / "out", vocoder="griffin-lim")
    other = Voice.load(tiny_voice(tmp_path / "attention"))
    with pytest.raises(ValueError, match="this one has attention alone"):
        export_runtime(other, tmp_path / "out")
