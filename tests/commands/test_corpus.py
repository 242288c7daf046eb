from pathlib import Path

import pytest
from typer.testing import CliRunner

from clock_attention.commands.main import app
from clock_attention.speech.aligner import Aligner
from clock_attention.speech.aligner.network import SHIPPED, model_name
from clock_attention.speech.corpus.feature_extraction import Settings
from clock_attention.speech.corpus.prepare import prepare
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.corpus.store_alignment import align_store
from clock_attention.speech.corpus.teacher import TeacherPhrase
from tests.speech.corpus.aligners import EvenAligner

runner = CliRunner()


def clock_attention(*arguments: object) -> tuple[int, str]:
    result = runner.invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_from_text_to_statistics(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("The birch canoe slid.\nGlue the sheet to it.\n😀\n", encoding="utf-8")
    store = tmp_path / "store"
    code, printed = clock_attention(
        "corpus", "synthesize", "--text", tmp_path / "text.txt", "--out", store, "--workers", 1
    )
    assert code == 0, printed
    assert "2 utterances" in printed
    assert "no phonemes" in printed
    assert "text-00003" in printed
    code, printed = clock_attention("corpus", "stats", store)
    assert code == 0, printed
    assert "hibari-tts reading text.txt" in printed
    assert "mean mel-to-phoneme ratio" in printed
    assert (store / "stats.png").exists()


def test_sentences_are_generated_without_a_text(tmp_path: Path) -> None:
    code, printed = clock_attention(
        "corpus", "synthesize", "--limit", 3, "--seed", 4, "--mel", "paper", "--speed", 2, "--phonemizer", "arpabet",
        "--out", tmp_path / "store", "--workers", 1,
    )  # fmt: skip
    assert code == 0, printed
    store = FeatureStore.open(tmp_path / "store")
    assert len(store) == 3
    assert {utterance.speed for utterance in store.utterances} == {2.0}
    assert store.mel_config.mel_scale == "htk"
    assert len(store.symbols) == 42


def test_a_folder_is_prepared_and_faults_are_shown(ljspeech_folder: Path, tmp_path: Path) -> None:
    code, printed = clock_attention("corpus", "prepare", ljspeech_folder, "--out", tmp_path / "store", "--workers", 1)
    assert code == 0, printed
    for reason in ("missing", "clipped", "too long", "malformed row", "duplicate id", "text mismatch"):
        assert reason in printed


def test_a_lexicon_decides_how_recordings_are_read(ljspeech_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "words.toml").write_text('sentence = "/zæt/"\n', "utf-8")
    for name, options in (("plain", []), ("lexicon", ["--lexicon", tmp_path / "words.toml"])):
        code, printed = clock_attention(
            "corpus", "prepare", ljspeech_folder, "--out", tmp_path / name, "--workers", 1, *options
        )
        assert code == 0, printed
    plain, store = (FeatureStore.open(tmp_path / name) for name in ("plain", "lexicon"))
    spoken = ["".join(each.symbols[token] for token in each.utterances[0].tokens) for each in (plain, store)]
    assert "zæt" not in spoken[0]
    assert "zæt" in spoken[1].replace("ˈ", "")
    assert "".join(store.phonemizer("sentence").tokens).replace("ˈ", "") == "zæt"  # texts of its voice, too
    assert "lexicon" not in plain.header["settings"]
    code, printed = clock_attention(
        "corpus", "prepare", ljspeech_folder, "--out", tmp_path / "none", "--lexicon", tmp_path / "none.toml"
    )
    assert code == 1
    assert "none.toml" in printed
    assert "Traceback" not in printed


def test_a_store_is_aligned_and_the_worst_are_shown(
    readings: list[TeacherPhrase], store_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Aligner, "load", lambda *_: EvenAligner(doubtful=readings[0].text.split()[0]))
    store = prepare(readings[:4], tmp_path / "store", store_settings, workers=1)
    code, printed = clock_attention("corpus", "align", store.path, "--workers", 1)
    assert code == 0, printed
    assert "3 of 4 utterances aligned, 1 left out" in printed
    assert "text and audio do not fit" in printed
    assert FeatureStore.open(store.path).timed


def test_a_store_that_the_same_aligner_has_aligned_is_not_aligned_again(
    readings: list[TeacherPhrase], store_settings: Settings, tmp_path: Path
) -> None:
    store = prepare(readings[:4], tmp_path / "store", store_settings, workers=1)
    align_store(store.path, EvenAligner, name=model_name(SHIPPED), workers=1)
    before = (store.path / "utterances.jsonl").read_bytes()
    code, printed = clock_attention("corpus", "align", store.path, "--workers", 1)
    assert code == 0, printed
    assert (store.path / "utterances.jsonl").read_bytes() == before, "durations are those of the even aligner"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["corpus", "align", "nowhere"], "not a feature store"),
        (["corpus", "align", "."], "is a folder of recordings: make a feature store of it first"),
        (["corpus", "stats", "nowhere"], "not a feature store"),
        (["corpus", "prepare", "nowhere", "--out", "x"], "no metadata.csv"),
        (["corpus", "ljspeech", "nowhere"], "--download"),
        (["corpus", "synthesize", "--text", "nowhere.txt", "--out", "x"], "nowhere.txt"),
        (["corpus", "synthesize", "--limit", "1", "--mel", "mfcc", "--out", "x"], "unknown mel preset"),
        (["corpus", "synthesize", "--limit", "1", "--speed", "9", "--out", "x"], "0.5…2.0"),
    ],
)
def test_mistakes_end_with_a_sentence(
    arguments: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "metadata.csv").touch()
    code, printed = clock_attention(*arguments)
    assert code == 1
    assert expected in printed
    assert "Traceback" not in printed


def test_speakers_are_named_and_listed(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(
        "The birch canoe slid.\nGlue the sheet to it.\nRice is served.\n", encoding="utf-8"
    )
    store = tmp_path / "store"
    made = ("corpus", "synthesize", "--text", tmp_path / "text.txt", "--out", store, "--workers", 1)
    code, printed = clock_attention(*made, "--speaker", "hibari")
    assert code == 0, printed
    assert "hibari" in clock_attention("corpus", "stats", store)[1].split("speaker")[1]
    code, printed = clock_attention("corpus", "speaker", store, "the teacher")
    assert code == 0, printed
    assert "3 utterances of the teacher" in printed
    assert [speaker.name for speaker in FeatureStore.open(store).speakers] == ["the teacher"]
    assert clock_attention(*made, "--speaker", "../x")[0] == 1
    assert "plain name" in clock_attention("corpus", "speaker", store, "a/b")[1]
