"""Voices for the page."""

import json
import shutil

import pytest

from clock_attention.speech.voice.voice import Voice
from tests.speech.voices import tiny_aligned_voice, tiny_voice


@pytest.fixture(scope="session")
def voice(tmp_path_factory):
    """With a parallel decoder that has durations, as the default voice, and an autoregressive one."""
    folder = tiny_aligned_voice(tmp_path_factory.mktemp("app") / "voice")
    steps = tiny_voice(folder.parent / "steps", decoding="autoregressive", positions="rotary")
    shutil.copytree(steps, folder / "autoregressive")
    return Voice.load(folder)


@pytest.fixture(scope="session")
def ann(tmp_path_factory):
    """The voice of a person, without an autoregressive decoder."""
    folder = tiny_aligned_voice(tmp_path_factory.mktemp("app") / "ann", decoder_width=12)
    card = json.loads((folder / "voice.json").read_text())
    card["provenance"] |= {"licence": "CC0", "corpus": "Ann's recordings", "consent": "she recorded herself"}
    (folder / "voice.json").write_text(json.dumps(card))
    return folder


@pytest.fixture(scope="session")
def speaker(voice, ann):
    from clock_attention.app.speaker import Speaker

    speaker = Speaker(voice, others={"ann": ann}, vocoder="griffin-lim")
    yield speaker
    speaker.close()


@pytest.fixture(scope="session")
def speech(speaker):
    return speaker.speak("The birch canoe slid, slowly.", decoding="parallel")
