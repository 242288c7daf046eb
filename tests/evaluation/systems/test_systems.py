"""What speaks: exact lengths, batches that change nothing, and speech to compare with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.evaluation.prompts import Prompt
from clock_attention.evaluation.systems.systems import (
    CopySynthesis,
    Length,
    TeacherSystem,
    VoiceSystem,
    samples_of,
    stretched,
)
from clock_attention.speech.audio.mel import MEL_PRESETS, MelConfig
from clock_attention.speech.voice.voice import Voice
from tests.evaluation.conftest import PROMPTS
from tests.speech.corpora import tiny_store

MakeVoice = Callable[..., Voice]
AUTOREGRESSIVE = {"decoding": "autoregressive", "prenet_width": 0}


@pytest.mark.parametrize("options", [{}, {"cross_attention": "dot"}, AUTOREGRESSIVE | {"cross_attention": "dot"}])
def test_the_requested_length_is_kept(options: dict[str, str], make_voice: MakeVoice) -> None:
    system = VoiceSystem(make_voice(**options), Length(mpr=5))
    for prompt, sound in zip(PROMPTS, system.say(PROMPTS), strict=True):
        assert sound.frames == len(sound.mel) == round(5 * system.size(prompt))
        assert sound.measures["words"] == len(prompt.text.split())


@pytest.mark.parametrize("options", [{}, AUTOREGRESSIVE | {"cross_attention": "dot"}])
def test_an_utterance_does_not_depend_on_its_batch(options: dict[str, str], make_voice: MakeVoice) -> None:
    system = VoiceSystem(make_voice(**options), Length(mpr=4))
    for prompt, sound in zip(PROMPTS, system.say(PROMPTS), strict=True):
        (alone,) = system.say([prompt])
        np.testing.assert_allclose(alone.mel, sound.mel, atol=1e-4)
        assert alone.measures == pytest.approx(sound.measures, abs=1e-4)


def test_pace_is_relative_to_the_natural_length(make_voice: MakeVoice) -> None:
    natural = VoiceSystem(make_voice())
    fast = natural.at(Length(pace=2.0))
    for slow_sound, fast_sound in zip(natural.say(PROMPTS), fast.say(PROMPTS), strict=True):
        assert fast_sound.frames == pytest.approx(slow_sound.frames / 2, abs=1)


def test_long_sentences_are_spoken_in_phrases_unless_asked_otherwise(make_voice: MakeVoice) -> None:
    text = "The cat sat on the mat, and the dog sat on the log, and the pig sat on the wig, and all of them were fat, "
    prompt = Prompt("long", text + text + "and that was that.", "test")
    voice = make_voice()
    phrases, whole = VoiceSystem(voice, Length(mpr=4)), VoiceSystem(voice, Length(mpr=4), whole=True)
    assert whole.size(prompt) > voice.longest_phrase
    (one,), (other,) = phrases.say([prompt]), whole.say([prompt])
    assert other.frames == 4 * whole.size(prompt)
    assert one.frames == pytest.approx(other.frames, rel=0.1)
    assert one.measures["words"] == other.measures["words"]
    assert phrases.identity(prompt) != whole.identity(prompt)
    first, second, third = (sound.frames for sound in phrases.say([PROMPTS[0], prompt, PROMPTS[1]]))
    assert (first, second, third) == (4 * whole.size(PROMPTS[0]), one.frames, 4 * whole.size(PROMPTS[1]))


@pytest.mark.parametrize(
    "options", [{"mpr": 0}, {"mpr": -1}, {"pace": 0.0}, {"mpr": 5, "pace": 1}, {"mpr": float("nan")}]
)
def test_impossible_lengths_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"expected a positive number|not both"):
        Length(**options)


@given(st.sampled_from(sorted(MEL_PRESETS)), st.integers(1, 2000))
def test_so_many_samples_have_exactly_so_many_frames(preset: str, frames: int) -> None:
    mel = MelConfig.preset(preset)
    samples = samples_of(frames, mel)
    assert mel.frames(samples) == frames
    assert mel.frames(samples - 1) < frames or samples == 0


def test_stretching_keeps_the_pitch() -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(22050) / 22050).astype(np.float32)
    for samples in (11025, 22050, 30000):
        changed = stretched(tone, samples)
        assert len(changed) == samples
        middle = changed[samples // 4 : -samples // 4]
        strongest = np.argmax(np.abs(np.fft.rfft(middle * np.hanning(len(middle))))) * 22050 / len(middle)
        assert strongest == pytest.approx(440, abs=8)


@pytest.mark.parametrize("paced", [False, True])
def test_the_teacher_is_compressed_to_the_length_a_voice_would_get(paced: bool) -> None:
    mel = MelConfig.preset("hifigan")
    prompt = Prompt("p", "The cat sat on the mat.", "test")
    (natural,) = TeacherSystem(mel).say([prompt])
    system = TeacherSystem(mel, Length(mpr=4), paced=paced)
    (sound,) = system.say([prompt])
    assert sound.frames == len(sound.mel) == 4 * len(system.reader(prompt.text)) < natural.frames
    (output,) = TeacherSystem(mel, Length(mpr=4), vocoded=False, paced=paced).say([prompt])
    assert output.mel is None
    assert mel.frames(len(output.wave)) == sound.frames
    assert TeacherSystem(mel, paced=paced).fingerprint != TeacherSystem(mel, paced=not paced).fingerprint


def test_copy_synthesis_says_what_was_recorded(tmp_path: Path) -> None:
    store = tiny_store(tmp_path / "store")
    system = CopySynthesis(store)
    utterance = store.utterances[5]
    prompt = Prompt(utterance.id, utterance.text, "valid")
    (sound,) = system.say([prompt])
    np.testing.assert_array_equal(sound.mel, store.mel(5).numpy())
    other = CopySynthesis(tiny_store(tmp_path / "other", seed=1))
    assert system.identity(prompt) != other.identity(prompt)  # the same id and text, another recording
    with pytest.raises(ValueError, match=r"no utterance 'p0'.*valid:"):
        system.say([PROMPTS[0]])
