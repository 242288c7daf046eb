"""A folder of recordings becomes a voice; killed at any stage and repeated, the same voice."""

import dataclasses
import hashlib
import itertools
import json
import shutil
from pathlib import Path

import pytest
import soundfile
from safetensors.torch import load_file, save_file

from clock_attention.own_voice import checks, fine_tuning, gather, training_plan
from clock_attention.own_voice import create as creation
from clock_attention.own_voice.create import STAGES, Creation, create
from clock_attention.own_voice.order import Order
from clock_attention.own_voice.report import minutes_used
from clock_attention.speech.aligner.network import model_name
from clock_attention.speech.corpus import prepare as preparation
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.voice.voice import Voice
from tests.speech.voices import tiny_aligned_voice

CONSENT = "A synthetic voice: nobody had to be asked"


def order(recordings, out, quick, **changes):
    return Order(recordings, out, CONSENT, **{**quick, **changes})


def weights(folder):
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def made(recordings, quick, tmp_path_factory):
    folder = tmp_path_factory.mktemp("voices") / "me"
    return folder, create(order(recordings, folder, quick), quiet=True)


def test_a_folder_of_recordings_becomes_a_voice_with_card_and_page(made):
    folder, found = made
    voice = Voice.load(folder)
    assert voice.card.provenance.consent == CONSENT
    assert voice.card.provenance.start == "base"
    assert voice.card.provenance.blend == Order.blend
    assert voice.card.measures["wer"] > 0
    assert found["gather"]["clips"] == 8
    assert found["prepare"]["utterances"] == 8
    page = (folder / "report.html").read_text()
    for part in ("word error rate", "left out", "data:audio/flac;base64", "data:image/png;base64", CONSENT):
        assert part in page
    assert CONSENT in (folder / "README.md").read_text()


class Killed(BaseException):
    """What no code of ours catches."""


def killed_at(number, owner, name):
    """Patches a function so that nobody survives its so manieth call; the work of that call is done."""
    real, calls = getattr(owner, name), itertools.count(1)

    def killing(*arguments, **options):
        result = real(*arguments, **options)
        if next(calls) == number:
            raise Killed
        return result

    return owner, name, killing


def half_trained():
    """As killed_at: three of the steps are done."""
    real = training_plan.train

    def killing(*arguments, **options):
        real(*arguments, **options, max_steps=3)
        raise Killed

    return training_plan, "train", killing


PLACES = {
    "gather, after three clips": lambda: killed_at(3, gather, "save_sound"),
    "gather, before it is written down": lambda: killed_at(1, gather.Gathering, "run"),
    "check": lambda: killed_at(1, Creation, "check"),
    "prepare, after a shard": lambda: killed_at(1, preparation, "run_shards"),
    "prepare, before it is written down": lambda: killed_at(1, creation, "prepare"),
    "align, before it is written down": lambda: killed_at(1, creation, "align_store"),
    "plan": lambda: killed_at(1, Creation, "plan"),
    "train, half way": half_trained,
    "train, before it is written down": lambda: killed_at(1, training_plan, "train"),
    "export, between its two voices": lambda: killed_at(1, fine_tuning, "export"),
    "export, before it is written down": lambda: killed_at(1, creation, "export_own_voice"),
    "evaluate": lambda: killed_at(1, creation, "measure"),
    "card": lambda: killed_at(1, creation, "write_card"),
}


@pytest.mark.parametrize("place", PLACES)
def test_killed_anywhere_and_repeated_it_is_the_same_voice(place, made, recordings, quick, tmp_path, monkeypatch):
    folder, found = made
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path)
        patch.setattr(*PLACES[place]())
        with pytest.raises(Killed):
            create(order(recordings, Path("again"), quick), quiet=True)
    assert not (tmp_path / "again" / "report.html").exists()
    again = create(order(recordings, tmp_path / "again", quick), quiet=True)  # the same folder by another path
    assert weights(tmp_path / "again") == weights(folder)
    assert again["evaluate"] == found["evaluate"]
    assert (tmp_path / "again" / "report.html").exists()


def test_a_finished_creation_does_nothing_again_and_a_changed_one_does(made, recordings, quick, tmp_path, monkeypatch):
    folder, _ = made
    before = weights(folder)
    with monkeypatch.context() as patch:
        for stage in ("gather", "prepare", "align", "train", "export", "evaluate"):
            patch.setattr(Creation, stage, lambda *_: pytest.fail("done already"))
        create(order(recordings, folder, quick), quiet=True)
    copy = tmp_path / "me"
    shutil.copytree(folder, copy)
    shutil.copytree(folder.with_name("me.work"), tmp_path / "me.work")
    create(order(recordings, copy, quick, seed=1), quiet=True)
    assert weights(copy) != before


@pytest.fixture
def another(made, tmp_path):
    """A finished creation of one's own, to be changed."""
    shutil.copytree(made[0], tmp_path / "me")
    shutil.copytree(made[0].with_name("me.work"), tmp_path / "me.work")
    return tmp_path / "me"


def stages_run(monkeypatch):
    """Which stages do anything, from now on."""
    log = []
    for stage in STAGES:
        real = getattr(Creation, stage)
        monkeypatch.setattr(Creation, stage, lambda *a, real=real, stage=stage, **k: log.append(stage) or real(*a, **k))
    return log


def test_a_repeated_stage_repeats_those_that_change_what_it_made(made, another, recordings, quick, monkeypatch):
    log = stages_run(monkeypatch)
    shutil.rmtree(another.with_name("me.work") / "store")
    create(order(recordings, another, quick), quiet=True)
    assert log == ["prepare", "align", "plan", "train", "export", "evaluate"]
    assert weights(another) == weights(made[0])


def test_another_base_of_the_same_size_is_noticed(another, base, recordings, quick, tmp_path, monkeypatch):
    log = stages_run(monkeypatch)
    other = shutil.copytree(base, tmp_path / "other" / "base")
    tensors = {name: tensor + 0.1 for name, tensor in load_file(other / "model.safetensors").items()}
    save_file(tensors, other / "model.safetensors")
    card = json.loads((other / "voice.json").read_text())
    (other / "voice.json").write_text(json.dumps(card | {"weights_sha256": weights(other)}))
    create(order(recordings, another, quick, base=str(other)), quiet=True)
    assert log == ["train", "export", "evaluate"]


def test_other_test_sentences_and_recognizers_only_measure_again(another, recordings, quick, tmp_path, monkeypatch):
    log = stages_run(monkeypatch)
    prompts = tmp_path / "prompts.txt"
    monkeypatch.setattr(creation, "load_recognizer", lambda name: None)
    for text, recognizer in (("One dog.", "moonshine"), ("Two dogs.", "moonshine"), ("Two dogs.", "whisper:base")):
        prompts.write_text(f"{text}\n")
        found = create(order(recordings, another, quick, prompts=prompts, recognizer=recognizer), quiet=True)
        assert found["evaluate"]["texts"] == [text]
    assert log == ["evaluate"] * 3


def test_more_time_that_is_not_needed_changes_nothing(another, recordings, quick, monkeypatch):
    monkeypatch.setattr(fine_tuning, "MOST_STEPS", (6, 6))
    monkeypatch.setattr(fine_tuning, "FEWEST_STEPS", 6)
    log = stages_run(monkeypatch)
    for minutes in (30, 60):
        create(order(recordings, another, quick, steps=None, minutes=minutes), quiet=True)
    create(order(recordings, another, quick, one_speaker=True), quiet=True)
    assert log == ["plan", "plan", "check", "plan"]


def test_corrected_texts_of_the_clips_are_learned(another, recordings, quick, monkeypatch):
    log = stages_run(monkeypatch)
    table = another.with_name("me.work") / "clips" / "metadata.csv"
    name, _, rest = table.read_text().split("|", 1)[0], *table.read_text().split("\n", 1)
    table.write_text(f"{name}|Corrected words.\n{rest}")
    create(order(recordings, another, quick), quiet=True)
    assert log[:2] == ["check", "prepare"]
    (recordings / "x.wav").write_bytes((recordings / f"{name}.wav").read_bytes())
    try:
        create(order(recordings, another, quick), quiet=True)
    finally:
        (recordings / "x.wav").unlink()
    before = another.with_name("me.work") / "metadata.before.1.csv"
    assert "Corrected words." in before.read_text()
    warnings = []
    create(order(recordings, another, quick), quiet=True, warn=warnings.append)
    assert "Corrected words." in before.read_text()
    assert not before.with_name("metadata.before.2.csv").exists()  # nothing was corrected since
    assert not any("corrected" in warning for warning in warnings)


def test_recordings_with_another_date_or_aligner_are_no_other_clips(another, recordings, quick, tmp_path, monkeypatch):
    log = stages_run(monkeypatch)
    copy = shutil.copytree(recordings, tmp_path / "mine", copy_function=shutil.copy)
    create(order(copy, another, quick), quiet=True)
    assert log == ["gather"]
    create(order(copy, another, quick, aligner=copy), quiet=True)
    assert log[1:3] == ["align", "plan"]


def test_what_is_no_clip_changes_nothing(another, recordings, quick, tmp_path, monkeypatch):
    """A file browser's own file, and recordings that cannot be used, wherever they lie."""
    log = stages_run(monkeypatch)
    (another.with_name("me.work") / "clips" / ".DS_Store").write_text("x")
    (another.with_name("me.work") / "clips" / "wavs" / ".DS_Store").write_text("x")
    create(order(recordings, another, quick), quiet=True)
    assert log == []
    for place in ("here", "there"):
        copy = shutil.copytree(recordings, tmp_path / place / "mine")
        (copy / "broken.wav").write_text("RIFF")
        create(order(copy, another, quick), quiet=True)
    assert log == ["gather", "gather"]


def test_another_base_is_timed_again(another, recordings, quick, tmp_path, monkeypatch):
    log = stages_run(monkeypatch)
    other = tiny_aligned_voice(tmp_path / "other" / "base", decoder_width=12)
    create(order(recordings, another, quick, base=str(other)), quiet=True)
    assert log == ["plan", "train", "export", "evaluate"]


def test_what_was_deleted_by_hand_is_made_again(another, recordings, quick, monkeypatch):
    log = stages_run(monkeypatch)
    (another / "voice.json").unlink()
    create(order(recordings, another, quick), quiet=True)
    assert log == ["export", "evaluate"]
    shutil.rmtree(another.with_name("me.work") / "samples")
    create(order(recordings, another, quick), quiet=True)
    assert log == ["export", "evaluate", "evaluate"]


def test_a_clip_that_was_deleted_by_hand_is_left_out_and_counted(another, recordings, quick, monkeypatch):
    log = stages_run(monkeypatch)
    clip = sorted((another.with_name("me.work") / "clips" / "wavs").iterdir())[0]
    seconds = soundfile.info(clip).duration
    clip.unlink()
    found = create(order(recordings, another, quick), quiet=True)
    assert log[:2] == ["check", "prepare"]
    assert [row[:2] for row in found["prepare"]["left_out"]] == [[clip.stem, "missing"]]
    assert found["prepare"]["left_out"][0][3] == pytest.approx(seconds, abs=0.01)
    table = another.with_name("me.work") / "clips" / "metadata.csv"
    table.write_text("".join(line for line in table.open() if clip.stem not in line))
    found = create(order(recordings, another, quick), quiet=True)
    assert found["prepare"]["removed"] == [1, pytest.approx(seconds, abs=0.01)]
    assert 60 * minutes_used(found) == pytest.approx(found["gather"]["seconds"] - seconds, abs=0.01)


def test_a_clip_that_was_damaged_by_hand_is_left_out_and_counted(another, recordings, quick):
    clip = sorted((another.with_name("me.work") / "clips" / "wavs").iterdir())[0]
    seconds = soundfile.info(clip).duration
    clip.write_bytes(b"")
    found = create(order(recordings, another, quick), quiet=True)
    (left_out,) = found["prepare"]["left_out"]
    assert left_out[:2] == [clip.stem, "unreadable"]
    assert left_out[3] == pytest.approx(seconds, abs=0.01)
    assert found["prepare"]["removed"] == [0, 0]


def test_a_voice_that_was_moved_can_be_measured_again(another, recordings, quick, tmp_path, monkeypatch):
    log = stages_run(monkeypatch)
    (tmp_path / "there").mkdir()
    for name in ("me", "me.work"):
        shutil.move(tmp_path / name, tmp_path / "there" / name)
    create(order(recordings, tmp_path / "there" / "me", quick, count=1), quiet=True)
    assert log == ["evaluate"]


def test_texts_that_fit_nothing_are_found_before_the_training(recordings, quick, tmp_path, monkeypatch):
    real, calls = creation.Aligner.align_phonemes, itertools.count()

    def fits_mostly(*arguments):
        return dataclasses.replace(real(*arguments), **({} if next(calls) < 6 else {"score": -9.0, "fits": False}))

    seconds = sum(soundfile.info(path).duration for path in recordings.glob("*.wav"))
    monkeypatch.setattr(checks, "FEWEST_SECONDS", seconds - 0.5)
    monkeypatch.setattr(creation.Aligner, "align_phonemes", fits_mostly)
    monkeypatch.setattr(Creation, "train", lambda *_: pytest.fail("too late"))
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"only \d+ s of speech have .* Left out: grammar3-\d+ \(.*, grammar3-\d+ \([^,]*\); check"
        ):
            create(order(recordings, tmp_path / "me", quick), quiet=True)


def test_recordings_and_voice_are_kept_apart(recordings, quick, tmp_path):
    copy = shutil.copytree(recordings, tmp_path / "me.work" / "clips")
    with pytest.raises(ValueError, match="where this command writes its own files"):
        create(order(copy, tmp_path / "me", quick))
    with pytest.raises(ValueError, match="is inside the folder of recordings"):
        create(order(copy, copy / "me", quick))
    assert len(list(copy.glob("*.wav"))) == 8


def test_where_nothing_can_be_used_the_error_says_why(quick, tmp_path):
    (tmp_path / "phone").mkdir()
    (tmp_path / "phone" / "a.wav").write_bytes(b"RIFF nothing")
    with pytest.raises(
        ValueError,
        match=r"0 s of speech.*record more sentences, or .* left out: 1 unreadable \(a: cannot read .*left_out.jsonl",
    ):
        create(order(tmp_path / "phone", tmp_path / "me", quick))


def test_warnings_come_before_the_training(recordings, quick, tmp_path, monkeypatch):
    monkeypatch.setattr(Creation, "prepare", lambda *_: pytest.fail("too late"))
    warnings = []
    with pytest.raises(pytest.fail.Exception):
        create(order(recordings, tmp_path / "me", quick), warn=warnings.append)
    assert any("minutes is not much" in warning for warning in warnings)


def test_one_long_recording_with_its_text_is_cut_and_used(recordings, quick, tmp_path):
    """All sentences in one file, as a person who reads a page would have them."""
    import numpy as np

    files = sorted(recordings.glob("*.wav"))
    waves = [soundfile.read(path)[0] for path in files]
    (tmp_path / "long").mkdir()
    soundfile.write(tmp_path / "long" / "page.flac", np.concatenate(waves), soundfile.info(files[0]).samplerate)
    text = " ".join(path.with_suffix(".txt").read_text() for path in files)
    (tmp_path / "long" / "page.txt").write_text(text)
    found = create(order(tmp_path / "long", tmp_path / "me", quick, steps=2), quiet=True)
    assert found["gather"]["cut"] == 1
    assert found["gather"]["seconds"] == pytest.approx(found["gather"]["seconds_found"], abs=0.1)
    assert not found["gather"]["left_out"]


def test_mistakes_are_found_before_anything_is_trained(recordings, quick, tmp_path, monkeypatch):
    monkeypatch.setattr(Creation, "train", lambda *_: pytest.fail("too late"))
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        create(order(tmp_path / "nowhere", tmp_path / "me", quick))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FileNotFoundError, match="no recordings in it"):
        create(order(empty, tmp_path / "me", quick))
    one = tmp_path / "one"
    one.mkdir()
    first = sorted(recordings.glob("*.wav"))[0]
    for path in (first, first.with_suffix(".txt")):
        shutil.copy(path, one)
    with pytest.raises(ValueError, match=r"s of speech with text in 1 clip; a voice needs at least"):
        create(order(one, tmp_path / "me", quick))
    german = tmp_path / "german"
    shutil.copytree(recordings, german)
    for path in german.glob("*.txt"):
        path.write_text("Das ist ein sehr langer Satz, und er hat viele Wörter auf Deutsch.")
    with pytest.raises(ValueError, match="its texts are not English"):
        create(order(german, tmp_path / "me2", quick))
    with pytest.raises(ValueError, match="whose voice is it"):
        Order(recordings, tmp_path / "me", "  ")


def test_a_folder_of_something_else_is_not_written_into(recordings, quick, tmp_path):
    (tmp_path / "me").mkdir()
    (tmp_path / "me" / "diary.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="which says how it was made, does not: choose another folder"):
        create(order(recordings, tmp_path / "me", quick))
    (tmp_path / "you.work" / "clips").mkdir(parents=True)
    (tmp_path / "you.work" / "clips" / "film.mov").write_text("mine")
    with pytest.raises(FileExistsError, match="would delete files in it"):
        create(order(recordings, tmp_path / "you", quick))
    assert (tmp_path / "you.work" / "clips" / "film.mov").exists()


def test_what_cannot_work_is_refused_before_anything_is_written(recordings, quick, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError, match="file is a file: name a folder"):
        create(order(recordings, tmp_path / "file", quick))
    with pytest.raises(FileNotFoundError, match="nowhere: there is no such folder; expected that of an aligner"):
        create(order(recordings, tmp_path / "me", quick, aligner=tmp_path / "nowhere"))
    with pytest.raises(ModuleNotFoundError, match="faster_whisper is not installed"):
        create(order(recordings, tmp_path / "me", quick, recognizer="whisper:base"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_store_is_aligned_for_the_other_commands_too(made, base):
    store = FeatureStore.open(made[0].with_name("me.work") / "store")
    assert store.header["alignment"]["aligner"] == model_name(base)  # so `corpus align` has nothing to do
