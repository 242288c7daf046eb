"""The chain from a mel to transcripts, in this process and in others."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from clock_attention.evaluation.pipeline.chain import ChainJob, ChainSpec, ChainWorkers, keep_audio, kept_audio
from clock_attention.evaluation.systems.systems import SystemOutput
from clock_attention.speech.audio.wave import Wave
from tests.evaluation.conftest import MEL, FakeRecognizer, FakeSource


class Mortal(FakeRecognizer):
    """Takes its process with it."""

    def transcribe(self, wave: Wave, sample_rate: int) -> str:
        os._exit(9)


@pytest.mark.slow
def test_a_worker_that_dies_is_explained_whenever_it_is_noticed(monkeypatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    sound = SystemOutput(1, wave=np.zeros(100, np.float32), sample_rate=22050)

    with ChainWorkers(FakeSource(recognizers=[Mortal()]), workers=2) as chains:

        def jobs() -> Iterator[ChainJob]:
            yield ChainJob("first", sound, ("fake",))
            assert chains.pool is not None
            while not chains.pool._broken:  # as while a long sentence is spoken
                time.sleep(0.05)
            yield ChainJob("second", sound, ("fake",))

        with pytest.raises(ChildProcessError, match="a worker process was killed"):
            list(chains.process(jobs()))


def test_a_recording_is_recognised_as_it_is_and_a_mel_through_the_vocoder(tmp_path: Path) -> None:
    source = FakeSource(recognizers=[FakeRecognizer("a"), FakeRecognizer("b")])
    chain = source.load()
    wave = np.zeros(3 * 22050, np.float32)
    outcome = chain.process(
        ChainJob("k", SystemOutput(1, wave=wave, sample_rate=22050), ("b",), audio=tmp_path / "x" / "k.flac")
    )
    assert (source.vocoder.calls, source.recognizers[0].calls) == (0, 0)
    assert (outcome.seconds, outcome.transcripts) == (3.0, {"b": "the cat sat on"})
    assert kept_audio(tmp_path / "x" / "k.flac")["sample_rate"] == 22050
    spoken = chain.process(ChainJob("m", SystemOutput(20, mel=np.zeros((20, MEL.n_mels), np.float32)), ("a",)))
    assert source.vocoder.calls == 1
    assert spoken.seconds == 20 * 256 / MEL.sample_rate


def test_damaged_audio_makes_room_for_new(tmp_path: Path) -> None:
    keep_audio(tmp_path / "a.flac", np.zeros(100, np.float32), 22050)
    (tmp_path / "a.flac").write_bytes(b"fLaC")
    assert kept_audio(tmp_path / "a.flac") is None
    assert not (tmp_path / "a.flac").exists()


def test_two_models_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "clock_attention.evaluation.pipeline.chain.load_recognizer", lambda name, threads: FakeRecognizer("base")
    )
    with pytest.raises(ValueError, match="another one is called 'base', too; rename its folder"):
        ChainSpec(MEL, "griffin-lim", ("whisper:a/base", "whisper:b/base")).load()
    with pytest.raises(ValueError, match="workers: expected 1 or more, got 0"):
        ChainWorkers(FakeSource(), 0)
