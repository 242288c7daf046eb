"""Every utterance is spoken, vocoded and recognised once, and never served for another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from clock_attention.evaluation.pipeline.cache import Cache, CacheKeys
from clock_attention.evaluation.pipeline.chain import ChainWorkers
from clock_attention.evaluation.pipeline.evaluate import Evaluation, evaluate, paired_difference
from clock_attention.evaluation.prompts import Prompt
from clock_attention.evaluation.systems.systems import Length, VoiceSystem
from clock_attention.speech.voice.voice import Voice
from tests.evaluation.conftest import PROMPTS, FakeRecognizer, FakeSource, FakeVocoder

pytest.importorskip("jiwer", reason="jiwer is not installed")
pytest.importorskip("whisper_normalizer", reason="whisper-normalizer is not installed")

MakeVoice = Callable[..., Voice]


def run(system: VoiceSystem, source: FakeSource, folder: Path, prompts=PROMPTS, **options) -> Evaluation:
    found = evaluate(system, prompts, ChainWorkers(source), Cache(folder), **options)
    assert found is not None
    return found


def test_a_second_run_speaks_vocodes_and_recognises_nothing(make_voice: MakeVoice, tmp_path: Path, monkeypatch) -> None:
    system, source = VoiceSystem(make_voice(), Length(mpr=5)), FakeSource()
    first = run(system, source, tmp_path / "cache")
    assert (source.vocoder.calls, source.recognizers[0].calls) == (len(PROMPTS), len(PROMPTS))
    monkeypatch.setattr(VoiceSystem, "say", None)
    again = FakeSource()
    assert run(system, again, tmp_path / "cache") == first
    assert (again.vocoder.calls, again.recognizers[0].calls) == (0, 0)


def other_weights(make_voice: MakeVoice) -> dict[str, object]:
    return {"system": VoiceSystem(make_voice("other", seed=1))}


CHANGES = {
    "weights": other_weights,
    # The same weights under another configuration.
    "model": lambda make_voice: {"system": VoiceSystem(make_voice("other", positions="normalized"))},
    "mpr": lambda make_voice: {"system": VoiceSystem(make_voice(), Length(mpr=7))},
    "pace": lambda make_voice: {"system": VoiceSystem(make_voice(), Length(pace=1.5))},
    "vocoder": lambda _: {"source": FakeSource(vocoder=FakeVocoder(fingerprint="other"))},
    "recognizer": lambda _: {"source": FakeSource(recognizers=[FakeRecognizer(fingerprint="other")])},
    "recognizer's name": lambda _: {"source": FakeSource(recognizers=[FakeRecognizer(name="other")])},
    "text": lambda _: {"prompts": [replace(prompt, text=prompt.text + " Yes.") for prompt in PROMPTS]},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_result_is_never_served_for_anything_else(what: str, make_voice: MakeVoice, tmp_path: Path) -> None:
    given = {"system": VoiceSystem(make_voice()), "source": FakeSource(), "prompts": PROMPTS}
    run(given["system"], given["source"], tmp_path / "cache", given["prompts"])
    changed = {**given, "source": FakeSource(), **CHANGES[what](make_voice)}
    run(changed["system"], changed["source"], tmp_path / "cache", changed["prompts"])
    assert changed["source"].recognizers[0].calls == len(PROMPTS)
    before = [CacheKeys.of(given["system"], prompt, given["source"].load()) for prompt in given["prompts"]]
    after = [CacheKeys.of(changed["system"], prompt, changed["source"].load()) for prompt in changed["prompts"]]
    assert not {key for keys in before for key in keys.transcripts.values()} & {
        k for keys in after for k in keys.transcripts.values()
    }


def test_an_interrupted_run_goes_on_where_it_stopped(make_voice: MakeVoice, tmp_path: Path) -> None:
    system = VoiceSystem(make_voice())
    whole = run(system, FakeSource(), tmp_path / "whole")
    stopped = FakeSource(recognizers=[FakeRecognizer(fails_at=2)])
    with pytest.raises(KeyboardInterrupt):
        run(system, stopped, tmp_path / "cache")
    rest = FakeSource()
    assert run(system, rest, tmp_path / "cache") == whole
    assert rest.recognizers[0].calls == len(PROMPTS) - 2


def test_several_recognizers_share_one_vocoding(make_voice: MakeVoice, tmp_path: Path) -> None:
    system = VoiceSystem(make_voice())
    source = FakeSource(recognizers=[FakeRecognizer("one"), FakeRecognizer("two"), FakeRecognizer("three")])
    found = run(system, source, tmp_path / "cache")
    assert source.vocoder.calls == len(PROMPTS)
    assert [one.calls for one in source.recognizers] == [len(PROMPTS)] * 3
    assert found.scores.keys() == {"one", "two", "three"}


def test_a_recognizer_added_later_uses_the_kept_audio(make_voice: MakeVoice, tmp_path: Path) -> None:
    system, audio = VoiceSystem(make_voice()), tmp_path / "audio"
    first = run(system, FakeSource(), tmp_path / "cache", audio=audio)
    assert {result.audio for result in first.results} == {path.name for path in audio.iterdir()}
    later = FakeSource(recognizers=[FakeRecognizer(), FakeRecognizer("later")])
    found = run(system, later, tmp_path / "cache", audio=audio)
    assert later.vocoder.calls == 0
    assert [one.calls for one in later.recognizers] == [0, len(PROMPTS)]
    assert [result.seconds for result in found.results] == [result.seconds for result in first.results]
    assert [result.measures for result in found.results] == [result.measures for result in first.results]
    # A file that a killed process left behind half written is vocoded again.
    (audio / first.results[0].audio).write_bytes(b"fLaC")
    another = FakeSource(recognizers=[FakeRecognizer("another")])
    run(system, another, tmp_path / "cache", audio=audio)
    assert another.vocoder.calls == 1
    mended = FakeSource(recognizers=[FakeRecognizer("one more")])
    run(system, mended, tmp_path / "cache", audio=audio)
    assert mended.vocoder.calls == 0


def test_audio_asked_for_later_is_made_then(make_voice: MakeVoice, tmp_path: Path) -> None:
    system, audio = VoiceSystem(make_voice()), tmp_path / "audio"
    run(system, FakeSource(), tmp_path / "cache")
    source = FakeSource()
    found = run(system, source, tmp_path / "cache", audio=audio)
    assert source.recognizers[0].calls == 0
    assert {result.audio for result in found.results} == {path.name for path in audio.iterdir()}


def test_a_text_without_words_is_refused_before_anything_is_spoken(make_voice: MakeVoice, tmp_path: Path) -> None:
    source = FakeSource()
    prompts = [*PROMPTS, Prompt("hesitation", "Um.", "test")]
    with pytest.raises(ValueError, match=r"the text 'Um\.' has no words to compare with"):
        run(VoiceSystem(make_voice()), source, tmp_path / "cache", prompts)
    assert source.vocoder.calls == 0


def test_ranks_share_the_work_and_put_it_together(make_voice: MakeVoice, tmp_path: Path) -> None:
    system = VoiceSystem(make_voice())
    sources = [FakeSource(), FakeSource()]
    for rank, source in enumerate(sources):
        evaluate(system, PROMPTS, ChainWorkers(source), Cache(tmp_path / "cache", rank), rank=rank, world=2)
    assert [source.vocoder.calls for source in sources] == [3, 2]
    silent = FakeSource()
    assert run(system, silent, tmp_path / "cache") == run(system, FakeSource(), tmp_path / "alone")
    assert silent.vocoder.calls == 0


def test_a_rank_that_is_first_to_finish_has_no_evaluation_yet(make_voice: MakeVoice, tmp_path: Path) -> None:
    system = VoiceSystem(make_voice())
    assert evaluate(system, PROMPTS, ChainWorkers(FakeSource()), Cache(tmp_path), rank=0, world=2) is None


def test_equal_prompts_are_recognised_once(make_voice: MakeVoice, tmp_path: Path) -> None:
    source, done = FakeSource(), []
    prompts = [*PROMPTS, replace(PROMPTS[0], id="again")]
    found = run(VoiceSystem(make_voice()), source, tmp_path, prompts, report=done.append)
    assert source.vocoder.calls == len(PROMPTS)
    assert len(found.results) == sum(done) == len(prompts)


def test_an_evaluation_survives_its_file(make_voice: MakeVoice, tmp_path: Path) -> None:
    found = run(VoiceSystem(make_voice(), Length(mpr=4)), FakeSource(), tmp_path / "cache")
    found.write(tmp_path / "results" / "one.json")
    again = Evaluation.read(tmp_path / "results" / "one.json")
    assert again == found
    assert again.to_json() == found.to_json()


def test_paired_differences_need_a_common_recognizer(make_voice: MakeVoice, tmp_path: Path) -> None:
    system = VoiceSystem(make_voice())
    first = run(system, FakeSource(), tmp_path)
    slow = run(system.at(Length(mpr=20)), FakeSource(), tmp_path)
    interval = paired_difference(slow, first, "fake")
    assert interval.estimate == pytest.approx(slow.scores["fake"].wer.estimate - first.scores["fake"].wer.estimate)
    assert interval.low <= interval.estimate <= interval.high
    with pytest.raises(ValueError, match="was not recognised by 'moonshine', only by fake"):
        paired_difference(first, slow, "moonshine")


def test_phone_recognizers_are_scored_on_phones(make_voice: MakeVoice, tmp_path: Path) -> None:
    class Phones(FakeRecognizer):
        def transcribe(self, wave: np.ndarray, sample_rate: int) -> str:
            return "DH AH K AE T"

    source = FakeSource(recognizers=[Phones("some-phones")])
    found = run(VoiceSystem(make_voice()), source, tmp_path, [replace(PROMPTS[0], text="The cat.")])
    assert found.scores["some-phones"].words.errors == 0


@pytest.mark.slow
def test_processes_find_what_one_process_finds(make_voice: MakeVoice, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3])  # the processes have to find the fakes
    torch.set_num_threads(1)
    system = VoiceSystem(make_voice())
    here = run(system, FakeSource(), tmp_path / "here")
    with ChainWorkers(FakeSource(), workers=2) as chains:
        there = evaluate(system, PROMPTS, chains, Cache(tmp_path / "there"))
    assert there == here
