"""Dubbing: slots to the sample, paces, overlaps, stems, resuming, processes, reports."""

import json

import numpy as np
import pytest
import soundfile

from clock_attention.speech.dubbing import slot as slots
from clock_attention.speech.dubbing.report import as_json, as_text, save_timeline
from clock_attention.speech.dubbing.slot import Delivery
from clock_attention.speech.dubbing.subtitles import Cue
from clock_attention.speech.dubbing.track import DubOptions, dub, trimmed
from tests.speech.voices import tiny_aligned_voice

RATE, HOP = 22050, 256
CUES = [
    Cue(1, 0.5, 2.513, "Hello there.", 1),
    Cue(2, 2.513, 2.9, "This one is too long.", 1),
    Cue(3, 3.0, 3.02, "This one is impossible.", 1),
    Cue(4, 3.1, 4.0, "", 1),
    Cue(5, 5.0, 14.0, "A slow one.", 1),
    Cue(6, 11.0, 14.0, "Another at the same time.", 1),
]


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    folder = tiny_aligned_voice(tmp_path_factory.mktemp("voices") / "aligned")
    return DubOptions(voice=str(folder), vocoder="griffin-lim", delivery=Delivery(fastest=1.5))


@pytest.fixture(scope="module")
def dubbed(options, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dub")
    options = DubOptions(**{**options.__dict__, "stems": folder / "stems", "length": 14.3456})
    with pytest.warns(UserWarning, match="Griffin-Lim"):
        reports = dub(CUES, folder / "out.wav", options)
    return folder, options, reports


def test_every_cue_is_in_its_slot_and_the_length_is_exact(dubbed):
    folder, _, reports = dubbed
    wave, rate = soundfile.read(folder / "out.wav")
    assert rate == RATE
    assert len(wave) == round(14.3456 * RATE)
    for cue, report in zip(CUES, reports, strict=True):
        samples = round(cue.end * RATE) - round(cue.start * RATE)
        assert report.frames == samples // HOP
        assert report.spoken_frames <= report.frames
        if report.file:
            assert soundfile.info(folder / "stems" / report.file).frames == samples
        if report.pace > 0.8 and report.spoken_frames:
            assert report.spoken_frames == report.frames
    quiet = wave[: round(0.5 * RATE)], wave[round(3.1 * RATE) : round(5.0 * RATE)], wave[round(14.0 * RATE) :]
    assert not any(part.any() for part in quiet)
    assert np.abs(wave[round(0.5 * RATE) : round(1.5 * RATE)]).max() > 0


def test_reports_say_what_to_do(dubbed):
    _, _, reports = dubbed
    assert [report.status for report in reports] == ["spoken", "too fast", "impossible", "empty", "spoken", "spoken"]
    assert [report.overlaps for report in reports] == [False] * 4 + [True] * 2
    assert reports[1].pace > 1.5
    assert 1 <= reports[1].cut_words <= reports[1].words
    assert sum(report.skipped for report in reports) == 0
    text = as_text(reports, 1.5)
    assert "cue 2 at 0:00:02.513: needs pace" in text
    assert json.loads(as_json(reports, 1.5))["summary"]["too_fast"] == 1


def test_the_picture_is_drawn(dubbed, tmp_path):
    save_timeline(dubbed[2], tmp_path / "timeline.png", 1.5)
    assert (tmp_path / "timeline.png").stat().st_size > 1000


def test_an_interrupted_run_is_continued(options, tmp_path, monkeypatch, recwarn):
    spoken = []
    perform = slots.perform

    def watched(voice, vocoder, slot, delivery):
        if len(spoken) == 1 and not (tmp_path / "go").exists():
            raise KeyboardInterrupt
        spoken.append(slot.cue.number)
        return perform(voice, vocoder, slot, delivery)

    monkeypatch.setattr(slots, "perform", watched)
    cues = [Cue(1, 0.0, 0.6, "One.", 1), Cue(2, 0.6, 1.4, "Two.", 1)]
    with pytest.raises(KeyboardInterrupt):
        dub(cues, tmp_path / "out.wav", options)
    assert not (tmp_path / "out.wav").exists()
    (tmp_path / "go").touch()
    dub(cues, tmp_path / "out.wav", options)
    assert spoken == [1, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["go", "out.wav"]


def test_earlier_cues_can_end_where_later_ones_begin():
    assert [(cue.start, cue.end) for cue in trimmed(CUES)][-2:] == [(5.0, 11.0), (11.0, 14.0)]


def test_a_length_that_would_cut_speech_is_refused(options, tmp_path):
    with pytest.raises(ValueError, match="end of the last cue"):
        dub(CUES, tmp_path / "out.wav", DubOptions(**{**options.__dict__, "length": 3.0}))


@pytest.mark.slow
def test_processes_give_the_same_sound(options, tmp_path):
    cues = [Cue(number, number, number + 0.9, f"Number {number}.", 1) for number in range(1, 5)]
    dub(cues, tmp_path / "one.wav", options)
    dub(cues, tmp_path / "two.wav", DubOptions(**{**options.__dict__, "jobs": 2}))
    assert (tmp_path / "one.wav").read_bytes() == (tmp_path / "two.wav").read_bytes()
