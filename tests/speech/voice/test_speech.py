"""Spoken text: pieces, tiers and files."""

import itertools
import json

import numpy as np
import pytest

from clock_attention.speech.voice.speech import join
from clock_attention.speech.voice.voice import Voice
from tests.speech.voice.test_synthesis import Hum
from tests.speech.voices import tiny_aligned_voice


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    voice = Voice.load(tiny_aligned_voice(tmp_path_factory.mktemp("speech") / "voice"))
    ssml = '<speak>One <mark name="here"/>two. Three, four.</speak>'
    return list(voice.stream(ssml=ssml, vocoder=Hum(voice.language.mel)))


def test_times_of_later_pieces_are_shifted(pieces):
    whole = join(pieces, "all")
    assert len(pieces) == 2
    assert whole.seconds == pytest.approx(sum(piece.seconds for piece in pieces))
    assert [word.label for word in whole.words] == ["One", "two", "Three", "four"]
    assert whole.sentences[1].start == pytest.approx(pieces[0].seconds + pieces[1].sentences[0].start)
    assert whole.offsets[-1] >= len(pieces[0].mel)
    assert [mark.label for mark in whole.marks] == ["here"]
    assert whole.marks[0].start == pytest.approx(whole.words[1].start)


def test_one_piece_is_itself_under_the_whole_text(pieces):
    alone = join(pieces[:1], "as it was written")
    assert alone.text == "as it was written"
    assert np.array_equal(alone.audio, pieces[0].audio)


def test_tiers_cover_the_speech_without_naming_pauses(pieces):
    tiers = join(pieces, "all").tiers()
    assert list(tiers) == ["sentences", "words", "phones", "visemes", "marks"]
    phones = tiers["phones"]
    assert all(before.end == after.start for before, after in itertools.pairwise(phones))
    assert not {" ", ",", "."} & {phone.label for phone in phones}


def test_files_follow_their_ending(pieces, tmp_path):
    whole = join(pieces, "all")
    whole.save_timestamps(tmp_path / "x.json")
    assert {"words", "phones"} <= json.loads((tmp_path / "x.json").read_text("utf-8"))["tiers"].keys()
    whole.save_timestamps(tmp_path / "x.srt")
    assert (tmp_path / "x.srt").read_text("utf-8").count("-->") == 2
    whole.save(tmp_path / "x.flac")
    assert (tmp_path / "x.flac").read_bytes()[:4] == b"fLaC"
