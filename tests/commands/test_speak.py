"""`clock-attention speak`: what it writes, and that every mistake is answered with a sentence."""

import io
import json
import subprocess
import sys
import wave

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from clock_attention.commands.main import app
from tests.speech.voices import tiny_aligned_voice, tiny_voice

HOP = 256


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    return tiny_voice(tmp_path_factory.mktemp("voices") / "voice")


@pytest.fixture
def speak(voice, tmp_path, monkeypatch):
    """The command in an empty folder, with a vocoder that is always there."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, **options):
        command = ["speak", "--voice", str(voice), "--vocoder", "griffin-lim", *arguments]
        return CliRunner().invoke(app, command, **options)

    return run


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def printed(result):
    """All that was printed, in one line."""
    return " ".join(result.output.split())


def test_a_lexicon_decides_how_words_are_read(speak, tmp_path):
    (tmp_path / "words.toml").write_text('Zyx = "/ˈzæp/"\n', "utf-8")
    result = speak("Zyx here.", "-o", "a.wav", "--timestamps", "a.json", "--lexicon", "words.toml")
    assert result.exit_code == 0, result.output
    phones = [phone["label"] for phone in json.loads((tmp_path / "a.json").read_text("utf-8"))["tiers"]["phones"]]
    assert [phone.strip("ˈˌ") for phone in phones if phone][:3] == ["z", "æ", "p"]
    (tmp_path / "words.toml").write_text('Zyx = "/☃/"\n', "utf-8")
    failed = speak("Zyx here.", "-o", "b.wav", "--lexicon", "words.toml")
    assert failed.exit_code == 1
    assert "words.toml" in printed(failed)
    assert "Traceback" not in failed.output
    assert not (tmp_path / "b.wav").exists()


def test_one_command_writes_sound_timestamps_picture_and_mel(speak, tmp_path):
    result = speak(
        *("Hello there. Good day!", "-o", "a.wav", "--duration", "2.1s", "--seed", "3"),
        *("--timestamps", "a.json", "--plot", "a.png", "--mel", "a.npy"),
    )
    assert result.exit_code == 0, result.output
    assert files(tmp_path) == ["a.json", "a.npy", "a.png", "a.wav"]
    audio, rate = soundfile.read("a.wav")
    mel = np.load("a.npy")
    frames = round(2.1 * 22050 / HOP)
    assert rate == 22050
    assert mel.shape == (frames, 80)
    assert mel.dtype == np.float32
    assert len(audio) == frames * HOP
    table = json.loads((tmp_path / "a.json").read_text())
    assert table["seconds"] == pytest.approx(frames * HOP / rate)
    assert [word["label"] for word in table["tiers"]["words"]] == ["Hello", "there", "Good", "day"]
    assert table["tiers"]["phones"][-1]["end"] == pytest.approx(table["seconds"])
    assert "a.wav: 2.10 s of speech" in printed(result)
    assert "warning: Griffin-Lim sounds metallic" in printed(result)


def test_the_timestamps_of_a_stream_are_those_of_the_whole(speak, voice, tmp_path):
    from clock_attention.speech.voice.voice import Voice
    from tests.speech.voice.test_synthesis import Hum

    text = "One two. Three four five. Six."
    assert speak(text, "--timestamps", "a.json").exit_code == 0
    loaded = Voice.load(voice)
    loaded.speak(text, vocoder=Hum(loaded.language.mel)).save_timestamps("b.json")
    streamed, whole = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    assert streamed["tiers"].keys() == whole["tiers"].keys()
    for tier, intervals in whole["tiers"].items():
        assert [row["label"] for row in streamed["tiers"][tier]] == [row["label"] for row in intervals]
        times = [[row["start"], row["end"]] for row in intervals]
        np.testing.assert_allclose([[row["start"], row["end"]] for row in streamed["tiers"][tier]], times, atol=1e-9)


def test_flac_by_name_and_text_from_a_file_with_a_byte_order_mark(speak, tmp_path):
    (tmp_path / "text.txt").write_text("\ufeffHello.", encoding="utf-8")
    assert speak("--file", "text.txt", "-o", "a.flac").exit_code == 0
    assert soundfile.info("a.flac").format == "FLAC"


@pytest.mark.parametrize("arguments", [["-"], [], ["--file", "-"]])
def test_text_from_standard_input(speak, arguments):
    assert speak(*arguments, input="Hello.").exit_code == 0
    assert soundfile.info("speech.wav").frames > 0


@pytest.mark.parametrize("text", ["Hello.", "Hello. Good day. Bye."])
def test_sound_on_standard_output_is_a_wav_that_readers_take(speak, tmp_path, text):
    assert speak(text, "-o", "a.wav").exit_code == 0
    expected, _ = soundfile.read("a.wav", dtype="int16")
    result = speak(text, "-o", "-")
    assert result.exit_code == 0
    audio, rate = soundfile.read(io.BytesIO(result.stdout_bytes), dtype="int16")
    assert rate == 22050
    np.testing.assert_allclose(audio, expected, atol=1)
    if text == "Hello.":  # known before the header is written
        with wave.open(io.BytesIO(result.stdout_bytes)) as header:
            assert header.getnframes() == len(expected)
    assert files(tmp_path) == ["a.wav"]


MISTAKES = [
    (["", "-o", "a.wav"], "give at least one English word or number"),
    (["😀"], "give at least one English word or number"),
    (["?!"], "give at least one English word or number"),
    (["Hi", "--duration", "0"], "duration: got '0', expected a positive time"),
    (["Hi", "--duration", "nan"], "duration: got 'nan'"),
    (["Hi", "--duration", "1h"], "such as 3.2, 3.2s or 3200ms"),
    (["Hi", "--duration", "0.01s"], "its natural duration is"),
    (["Hi", "--duration", "2", "--pace", "1"], "choose one"),
    (["Hi", "--pace", "-1"], "2 is twice as fast"),
    (["Hi", "--pace", "nan"], "pace: got nan"),
    (["Hi", "--mpr", "0"], "mpr: got 0"),
    (["Hi", "--pause", "-1"], "pause: got -1"),
    (["Hi", "--decoding", "autoregressive"], "has no autoregressive decoder"),
    (["Hi", "--voice", "nowhere"], "nowhere: not a voice"),
    (["Hi", "--voice", "damaged"], "cannot be read"),
    (["Hi", "--vocoder", "nowhere"], "no vocoder 'nowhere'"),
    (["Hi", "-o", "nowhere/a.wav"], "the folder nowhere does not exist"),
    (["Hi", "-o", "a.mp3"], "expected a name ending in .wav or .flac"),
    (["Hi", "-o", "folder.wav"], "is a folder"),
    (["Hi", "--timestamps", "a.txt"], "expected a name ending in .TextGrid, .json, .srt"),
    (["Hi", "--plot", "a.gif"], "expected a name ending in .png"),
    (["Hi", "--mel", "a.mel"], "expected a name ending in .npy"),
    (["Hi", "--file", "b.txt"], "choose one"),
    (["--file", "b.txt"], "b.txt: cannot be read (No such file or directory)"),
    (["--file", "latin.txt"], "latin.txt: not UTF-8 text (byte 3)"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_every_mistake_is_answered_with_a_sentence_and_leaves_nothing_behind(speak, tmp_path, arguments, message):
    (tmp_path / "folder.wav").mkdir()
    (tmp_path / "damaged" / "voice.json").mkdir(parents=True)
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    before = files(tmp_path)
    result = speak(*arguments)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert message in printed(result)
    assert "Traceback" not in result.output
    assert files(tmp_path) == before


@pytest.mark.parametrize("text", ["a", "hel\x00lo \x07wor\x1bld", "Привет hello 世界 😀", "A\u202e b\u0301 ﬁne ½ ①"])
def test_odd_texts_are_spoken(speak, text):
    result = speak("--", text)
    assert result.exit_code == 0, result.output
    assert soundfile.info("speech.wav").frames > 0


def test_a_failure_on_the_way_leaves_the_old_file_as_it_was(speak, tmp_path, monkeypatch):
    from clock_attention.speech.voice import synthesis

    (tmp_path / "a.wav").write_bytes(b"old")
    say, spoken = synthesis.say, []

    def failing(*arguments):
        if spoken:
            raise OSError("no space left on device")
        spoken.append(True)
        return say(*arguments)

    monkeypatch.setattr(synthesis, "say", failing)
    result = speak("One. Two.", "-o", "a.wav", "--mel", "a.npy")
    assert result.exit_code == 1
    assert "error: no space left on device" in printed(result)
    assert (tmp_path / "a.wav").read_bytes() == b"old"
    assert files(tmp_path) == ["a.wav"]


def test_speaking_loads_nothing_that_it_does_not_need(voice):
    code = f"""
import sys, warnings
warnings.simplefilter("ignore")
from clock_attention.commands import speak
from clock_attention.speech.voice import speech_files
from clock_attention.speech.voice import Voice
Voice.load({str(voice)!r}).utter(["Hello."])
heavy = ["matplotlib", "lightning_fabric", "tensorboard", "onnx", "torch._dynamo", "librosa.core", "sklearn"]
print([name for name in heavy if name in sys.modules])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_ssml_timeline_pitch_and_energy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    voice = ["--voice", str(tiny_aligned_voice(tmp_path / "voice")), "--vocoder", "griffin-lim"]
    ssml = '<speak>One <mark name="m"/><break time="1s"/> <prosody duration="500ms">two</prosody>.</speak>'
    arguments = [ssml, "--ssml", "--timestamps", "a.json", "--pitch", "2", "--energy", "-3", *voice]
    result = CliRunner().invoke(app, ["speak", *arguments])
    assert result.exit_code == 0, result.output
    tiers = json.loads((tmp_path / "a.json").read_text())["tiers"]
    one, two = tiers["words"]
    assert two["start"] - one["end"] == pytest.approx(1, abs=0.006)
    assert two["end"] - two["start"] == pytest.approx(0.5, abs=0.006)
    assert tiers["marks"][0]["start"] == one["end"]
    result = CliRunner().invoke(app, ["speak", "One two.", "--timeline", "a.json", "--timestamps", "b.json", *voice])
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "b.json").read_text())["tiers"]["words"] == tiers["words"]
    result = CliRunner().invoke(app, ["speak", "<speak><b>x</b></speak>", "--ssml", *voice])
    assert result.exit_code == 1
    assert "line 1, column 8: <b> is not supported" in result.output


def test_a_speaker_of_several_is_chosen_by_name(speak, tmp_path):
    duo = str(tiny_aligned_voice(tmp_path / "duo", speakers=("ann", "bob")))
    for name in ("ann", "bob"):
        result = speak("One two.", "--voice", duo, "--speaker", name, "--out", f"{name}.wav", "--mel", f"{name}.npy")
        assert result.exit_code == 0, result.output
    ann, bob = (np.load(tmp_path / f"{name}.npy") for name in ("ann", "bob"))
    assert ann.shape != bob.shape or not np.allclose(ann, bob)
    assert "no speaker 'cleo'; choose one of ann, bob" in printed(speak("One.", "--voice", duo, "--speaker", "cleo"))
    assert "one speaker: leave out the speaker" in printed(speak("One.", "--speaker", "ann"))
