from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from clock_attention.speech.aligner import Aligner, AlignmentError
from clock_attention.speech.aligner.network import AlignerConfig, AlignerNet, load_model, save_model
from clock_attention.speech.aligner.phone_classes import SILENCE, STATES, sounds, state

RATE = 16000
TEXT = "She had your dark suit."


@pytest.fixture(scope="module")
def untrained() -> Aligner:
    torch.manual_seed(0)
    return Aligner(AlignerNet(AlignerConfig(width=8, hidden=16, dilations=(1, 2))))


def noise(seconds: float, rate: int = RATE) -> np.ndarray:
    return np.random.default_rng(0).normal(size=int(seconds * rate)).astype(np.float32) * 0.1


class Heard(AlignerNet):
    """Hears given classes for given numbers of frames."""

    states: np.ndarray  # (frames,)

    def forward(self, features):
        states = torch.full((1, features.shape[1], STATES), -9.0)
        states[0, torch.arange(features.shape[1]), torch.from_numpy(self.states)] = 0.0
        change = torch.full((1, features.shape[1]), -3.0)
        change[0, 1:][torch.from_numpy(np.diff(self.states) != 0)] = 3.0
        return states, change


def heard_words(reader, text: str, frames: int = 8, pauses: dict[int, int] | None = None) -> list[tuple[int, int]]:
    """What a perfect ear hears: 20 frames of silence, every phone for 2 × `frames`, 20 frames of silence."""
    phonemes = reader(text)
    output = [(state(SILENCE, 0), 20)]
    for sound, word in zip(sounds(phonemes.tokens, phonemes.word_index), phonemes.word_index, strict=True):
        if sound is not None:
            output += [(column, frames * 2 // len(sound.states)) for column in sound.states]
        elif word < 0 and pauses:
            output.append((state(SILENCE, 0), pauses.pop(0, 0) or 1))
    return [*output, (state(SILENCE, 0), 20)]


def aligned_to(text_said: str, text_given: str):
    ear = Heard(AlignerConfig(width=8, hidden=16, dilations=(1,)))
    aligner = Aligner(ear)
    output = heard_words(aligner.reader, text_said)
    ear.states = np.concatenate([np.full(frames, column) for column, frames in output])
    return aligner.align(noise(len(ear.states) * 0.005), text_given, sample_rate=RATE)


def test_intervals_are_contiguous_and_hold_every_word(untrained):
    found = untrained.align(noise(3.0), TEXT, sample_rate=RATE)
    for tier in (found.words, found.phones):
        assert tier[0].start == 0
        assert tier[-1].end == found.duration == 3.0
        assert all(before.end == after.start for before, after in itertools.pairwise(tier))
        assert all(0 <= interval.confidence <= 1 for interval in tier)
    missing = [flag.word for flag in found.flags if flag.kind == "written-not-spoken"]
    assert sorted([word.label for word in found.words if word.label] + missing) == sorted(
        ["She", "had", "your", "dark", "suit"]
    )
    assert found.posterior is not None
    assert found.posterior.shape == (600, len(found.source_clock))
    assert (np.diff(found.target_clock) >= 0).all()


def test_a_perfect_ear_finds_the_boundaries():
    found = aligned_to(TEXT, TEXT)
    words = [word for word in found.words if word.label]
    assert [word.label for word in words] == ["She", "had", "your", "dark", "suit"]
    assert [word.start for word in words] == pytest.approx([0.1, 0.26, 0.5, 0.74, 1.06], abs=0.003)
    assert not found.flags
    assert found.fits
    assert found.score == pytest.approx(0, abs=0.01)


def test_a_word_that_is_not_spoken_is_flagged_and_moves_nothing():
    found = aligned_to("She had dark suit.", TEXT)
    assert [(flag.kind, flag.word) for flag in found.flags] == [("written-not-spoken", "your")]
    dark = next(word for word in found.words if word.label == "dark")
    assert dark.start == pytest.approx(0.5, abs=0.003)


def test_a_word_that_is_not_written_is_flagged_and_moves_nothing():
    found = aligned_to(TEXT, "She had your suit.")
    (flag,) = found.flags
    assert flag.kind == "spoken-not-written"
    assert (flag.start, flag.end) == pytest.approx((0.74, 1.06), abs=0.01)
    suit = next(word for word in found.words if word.label == "suit")
    assert suit.start == pytest.approx(1.06, abs=0.003)


def test_another_text_does_not_fit():
    assert not aligned_to("Completely different things were talked about.", TEXT).fits


def test_tokens_cover_the_recording_and_phonemes_take_time(untrained):
    phonemes = untrained.reader("Nineteen fifty, they said.")
    times = untrained.align_phonemes(noise(4.0, 22050), 22050, phonemes)
    assert len(times.starts) == len(phonemes)
    assert times.leading + (times.ends - times.starts).sum() + times.trailing == pytest.approx(4.0)
    np.testing.assert_allclose(times.starts[1:], times.ends[:-1])
    spoken = [place for place, token in enumerate(phonemes.tokens) if token not in " ,.!?"]
    assert (times.ends - times.starts)[spoken].min() > 0


@pytest.mark.parametrize(
    ("wave", "rate", "text", "message"),
    [
        (np.zeros(0), RATE, TEXT, "nothing to align"),
        (np.zeros(RATE), RATE, TEXT, "silent"),
        (noise(1.0), None, TEXT, "sample_rate"),
        (noise(1.0), 10, TEXT, "got 10 Hz"),
        (noise(1.0).reshape(-1, 2), RATE, TEXT, "one channel"),
        (np.full(RATE, np.nan), RATE, TEXT, "not numbers"),
        (noise(1.0), RATE, "…", "at least one English word"),
        (noise(0.3), RATE, "word " * 40, "too long for the recording"),
    ],
)
def test_what_cannot_be_aligned_is_reported(untrained, wave, rate, text, message):
    with pytest.raises(AlignmentError, match=message):
        untrained.align(wave, text, sample_rate=rate)


def test_a_file_that_is_no_recording(untrained, tmp_path):
    (tmp_path / "x.wav").write_text("no sound")
    with pytest.raises(AlignmentError, match=r"cannot read .*x\.wav"):
        untrained.align(tmp_path / "x.wav", TEXT)


def test_a_saved_model_aligns_as_before(untrained, tmp_path):
    untrained.model.half().float()
    save_model(tmp_path, untrained.model)
    again = Aligner(load_model(tmp_path))
    assert (
        again.align(noise(2.0), TEXT, sample_rate=RATE).words
        == untrained.align(noise(2.0), TEXT, sample_rate=RATE).words
    )


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(ValueError, match="no aligner model"):
        Aligner.load(tmp_path)
