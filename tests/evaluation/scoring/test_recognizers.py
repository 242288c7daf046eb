"""Recognizers: one interface, clear answers when something is missing, transcripts that do not depend on history."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from clock_attention.evaluation.scoring import recognizers
from clock_attention.evaluation.scoring.recognizers import (
    RECOGNIZERS,
    BaseRecognizer,
    Moonshine,
    PocketSphinx,
    Recognizer,
    Wav2Vec2,
    Whisper,
    fingerprint,
    load_recognizer,
)
from clock_attention.speech.audio.sound_reading import load_audio
from clock_attention.speech.audio.wave import Wave


class Counting(BaseRecognizer):
    """Transcribes a wave as the number of its samples."""

    def recognize(self, samples: Wave) -> str:
        return f" {len(samples)} "


@pytest.fixture(scope="module")
def speech() -> Wave:
    """Three seconds of a recording: "Ever tried. Ever failed."."""
    moonshine = pytest.importorskip("moonshine_voice", reason="moonshine-voice is not installed")
    recording = Path(moonshine.__file__).parent / "assets" / "beckett.wav"
    if not recording.exists():
        pytest.skip("this release of moonshine-voice has no recordings inside")
    return load_audio(recording, 22050)[: 3 * 22050]


def test_recognizers_hear_16_khz() -> None:
    wave = np.full(22050, 0.1, np.float32)
    assert Counting().transcribe(wave, 22050) == "16000"
    assert Counting().transcribe(wave, 16000) == "22050"


@pytest.mark.parametrize("wave", [np.zeros(16000, np.float32), np.zeros(0, np.float32)])
def test_silence_has_no_words(wave: Wave) -> None:
    assert Counting().transcribe(wave, 16000) == ""


def test_broken_waves_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(samples,\), got \(2, 100\)"):
        Counting().transcribe(np.ones((2, 100), np.float32), 16000)
    with pytest.raises(ValueError, match="not finite"):
        Counting().transcribe(np.array([0.0, np.nan], np.float32), 16000)


def test_moonshine_transcribes_independently_of_earlier_audio(speech: Wave) -> None:
    recognizer: Recognizer = Moonshine()
    first = recognizer.transcribe(speech, 22050)
    assert "failed" in first.lower()
    recognizer.transcribe(speech[22050:], 22050)
    assert recognizer.transcribe(speech, 22050) == first


@pytest.mark.slow
def test_pocketsphinx_transcribes_words_and_phones(speech: Wave) -> None:
    pytest.importorskip("pocketsphinx", reason="pocketsphinx is not installed")
    words = PocketSphinx()
    first = words.transcribe(speech, 22050)
    assert first.split()
    words.transcribe(speech[22050:], 22050)
    assert words.transcribe(speech, 22050) == first
    phones = PocketSphinx(phones=True)
    output = phones.transcribe(speech, 22050).split()
    assert phones.transcribe(speech, 22050).split() == output
    assert {"EH", "V"} <= set(output)
    assert "SIL" not in output
    assert words.fingerprint != phones.fingerprint


@pytest.mark.slow
def test_wav2vec2_reads_a_saved_checkpoint(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"abcde"]
    (tmp_path / "vocab.json").write_text(json.dumps({letter: place for place, letter in enumerate(letters)}))
    transformers.Wav2Vec2Processor(
        feature_extractor=transformers.Wav2Vec2FeatureExtractor(do_normalize=True),
        tokenizer=transformers.Wav2Vec2CTCTokenizer(tmp_path / "vocab.json"),
    ).save_pretrained(tmp_path)
    shape = transformers.Wav2Vec2Config(
        vocab_size=len(letters),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        conv_dim=(8, 8),
        conv_kernel=(10, 3),
        conv_stride=(40, 8),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
    )
    model = transformers.Wav2Vec2ForCTC(shape)
    torch.nn.init.zeros_(model.lm_head.weight)
    model.lm_head.bias.data = torch.nn.functional.one_hot(torch.tensor(letters.index("b")), len(letters)).float()
    model.save_pretrained(tmp_path)
    recognizer = Wav2Vec2(tmp_path)
    wave = np.random.default_rng(0).normal(size=22050).astype(np.float32)
    assert recognizer.transcribe(wave, 22050) == "b"  # the same letter at every step is one letter
    assert recognizer.transcribe(wave[:2], 22050) == "b"  # shorter than what its convolutions see at once
    model.lm_head.bias.data = model.lm_head.bias.data.roll(1)
    model.save_pretrained(tmp_path)
    other = Wav2Vec2(tmp_path)
    assert other.transcribe(wave, 22050) == "c"
    assert other.fingerprint != recognizer.fingerprint


def test_wav2vec2_without_a_checkpoint_says_what_to_give(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    with pytest.raises(FileNotFoundError, match="give a folder saved by transformers"):
        Wav2Vec2(tmp_path)


def test_whisper_is_asked_for_deterministic_english(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}
    loops = 0  # tokens

    class WhisperModel:
        def __init__(self, model: str, **options: object) -> None:
            asked.update(options, model=model)

        def transcribe(self, samples: Wave, **options: object) -> tuple[object, object]:
            asked.update(options, samples=len(samples))
            result = [" Ever tried.", " Ever failed."] if options.get("repetition_penalty") or not loops else [" n-n-n"]
            return iter([SimpleNamespace(text=text, tokens=[1] * (loops or 5)) for text in result]), None

    monkeypatch.setitem(sys.modules, "faster_whisper", SimpleNamespace(WhisperModel=WhisperModel))
    monkeypatch.setattr(recognizers, "version", lambda name: "1.0")  # the package may not be installed
    recognizer = load_recognizer("whisper:small.en")
    assert recognizer.transcribe(np.ones(22050, np.float32), 22050) == "Ever tried. Ever failed."
    assert recognizer.name == "whisper-small.en"
    assert (asked["model"], asked["samples"], asked["language"], asked["temperature"]) == ("small.en", 16000, "en", 0.0)
    assert recognizer.fingerprint != load_recognizer("whisper:base.en").fingerprint
    assert "repetition_penalty" not in asked
    loops = 29  # in a second
    assert recognizer.transcribe(np.ones(22050, np.float32), 22050) == "Ever tried. Ever failed."
    loops = 28  # could have been said
    assert recognizer.transcribe(np.ones(22050, np.float32), 22050) == "n-n-n"


def test_whisper_without_a_model_says_what_to_give(tmp_path: Path) -> None:
    pytest.importorskip("faster_whisper", reason="faster-whisper is not installed")
    with pytest.raises(FileNotFoundError, match="give a CTranslate2 model folder"):
        Whisper(tmp_path)


@pytest.mark.slow
def test_whisper_transcribes_speech(speech: Wave) -> None:
    pytest.importorskip("faster_whisper", reason="faster-whisper is not installed")
    folder = os.environ.get("CLOCK_ATTENTION_WHISPER")
    if not folder:
        pytest.skip("CLOCK_ATTENTION_WHISPER does not name a CTranslate2 model folder")
    assert "failed" in Whisper(folder, threads=1).transcribe(speech, 22050).lower()


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("moonshine", "moonshine_voice", "evaluation"),
        ("whisper", "faster_whisper", "whisper"),
        ("wav2vec2", "transformers", "wav2vec2"),
        ("pocketsphinx", "pocketsphinx", "pocketsphinx"),
        ("pocketsphinx-phones", "pocketsphinx", "pocketsphinx"),
    ],
)
def test_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch, name: str, package: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"{package} is not installed.*clock-attention\[{extra}\]"):
        load_recognizer(name)


def test_every_recognizer_above_is_offered() -> None:
    assert set(RECOGNIZERS) == {"moonshine", "whisper", "wav2vec2", "pocketsphinx", "pocketsphinx-phones"}
    for name in ("siri", "moonshine:tiny", ""):
        with pytest.raises(ValueError, match=r"unknown recognizer .*wav2vec2:FOLDER"):
            load_recognizer(name)


def test_fingerprint_follows_contents_names_and_settings(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    first = fingerprint(*tmp_path.iterdir(), settings={"beam": 5})
    assert fingerprint(tmp_path / "b", tmp_path / "a", settings={"beam": 5}) == first
    assert fingerprint(*tmp_path.iterdir(), settings={"beam": 1}) != first
    (tmp_path / "b").write_bytes(b"3")
    second = fingerprint(*tmp_path.iterdir(), settings={"beam": 5})
    (tmp_path / "b").rename(tmp_path / "c")
    assert len({first, second, fingerprint(*tmp_path.iterdir(), settings={"beam": 5})}) == 3
