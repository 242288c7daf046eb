"""Output files, written sentence by sentence."""

import io

import numpy as np
import pytest
import soundfile
import torch

from clock_attention.speech.voice.speech_files import MelFile, Outputs
from clock_attention.speech.voice.voice import Voice
from tests.speech.voice.test_synthesis import Hum
from tests.speech.voices import tiny_voice


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    voice = Voice.load(tiny_voice(tmp_path_factory.mktemp("outputs") / "voice"))
    return list(voice.stream("One two. Three.", vocoder=Hum(voice.language.mel)))


def test_a_mel_grows_in_its_file_and_is_there_when_complete(tmp_path):
    parts = [torch.rand(7, 4), torch.rand(0, 4), torch.rand(12345, 4)]
    with MelFile(tmp_path / "x.npy", 4) as file:
        for part in parts:
            file.write(part)
        assert not (tmp_path / "x.npy").exists()
    assert np.array_equal(np.load(tmp_path / "x.npy"), torch.cat(parts).numpy())
    with pytest.raises(RuntimeError), MelFile(tmp_path / "y.npy", 4):
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_all_files_speak_of_the_same_time(pieces, tmp_path):
    names = {"mel": tmp_path / "x.npy", "timestamps": tmp_path / "x.TextGrid", "plot": tmp_path / "x.png"}
    with Outputs(tmp_path / "x.wav", **names) as outputs:
        for piece in pieces:
            outputs.write(piece)
    audio, rate = soundfile.read(tmp_path / "x.wav")
    assert len(audio) == outputs.samples == outputs.frames * 256
    assert outputs.seconds == len(audio) / rate
    assert len(np.load(tmp_path / "x.npy")) == outputs.frames
    assert f"xmax = {outputs.seconds:.3f}"[:10] in (tmp_path / "x.TextGrid").read_text("utf-8")
    assert (tmp_path / "x.png").exists()


def test_an_error_on_the_way_leaves_no_file(pieces, tmp_path):
    def fail():
        with Outputs(tmp_path / "x.wav", mel=tmp_path / "x.npy", timestamps=tmp_path / "x.json") as outputs:
            outputs.write(pieces[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not list(tmp_path.iterdir())


def test_sound_can_go_to_a_pipe(pieces):
    pipe = io.BytesIO()
    with Outputs(pipe) as outputs:
        outputs.write(pieces[0])
    assert pipe.getvalue()[:4] == b"RIFF"


def test_names_are_checked_before_anything_is_spoken(tmp_path):
    for options in ({"mel": tmp_path / "x.txt"}, {"timestamps": tmp_path / "x.doc"}, {"plot": tmp_path / "x.gif"}):
        with pytest.raises(ValueError, match="expected a name ending in"):
            Outputs(tmp_path / "x.wav", **options)
