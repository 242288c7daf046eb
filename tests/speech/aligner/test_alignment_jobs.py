"""Many recordings at once: in processes, with failures as rows, and a table that survives a stop at any byte."""

from __future__ import annotations

from pathlib import Path

import pytest
import soundfile

from clock_attention.speech.aligner import alignment_jobs
from clock_attention.speech.aligner.alignment_jobs import AlignmentJob, Options, Outcome, Table, align_all
from clock_attention.speech.corpus.recording_checks import Recording
from tests.speech.aligner.coded import CodedAligner, coded_speech

TEXT = "Good morning, everybody."


@pytest.fixture
def jobs(tmp_path):
    soundfile.write(tmp_path / "a.wav", coded_speech(TEXT).wave, 16000, subtype="FLOAT")
    good = [
        AlignmentJob(Recording(f"a{n}", TEXT, str(tmp_path / "a.wav")), (tmp_path / f"a{n}.ctm",)) for n in range(3)
    ]
    return [*good, AlignmentJob(Recording("gone", TEXT, str(tmp_path / "gone.wav")), (tmp_path / "gone.ctm",))]


def test_processes_write_what_one_writes(jobs, tmp_path, monkeypatch):
    alone = {row.recording: row for row in align_all(jobs, CodedAligner.load, Options(), 1)}
    written = [job.outputs[0].read_text() for job in jobs[:3]]
    for job in jobs[:3]:
        job.outputs[0].unlink()
    monkeypatch.setattr(alignment_jobs, "FEW", 1)
    monkeypatch.syspath_prepend(Path(__file__).parents[3])  # where the other processes find this aligner
    together = {row.recording: row for row in align_all(jobs, CodedAligner.load, Options(), 2)}
    assert together == alone
    assert [job.outputs[0].read_text() for job in jobs[:3]] == written
    assert together["gone"].status == "failed"
    assert "gone.wav" in together["gone"].reason


def test_a_fault_of_the_program_is_the_reason_of_one_recording(jobs, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(CodedAligner, "align", broken)
    rows = list(align_all(jobs[:1], CodedAligner.load, Options(), 1))
    assert [(row.status, row.reason) for row in rows] == [("failed", "ZeroDivisionError: division by zero")]


def test_the_table_comes_back_from_any_length(tmp_path):
    table = Table(tmp_path / "alignment.csv")
    for name in ("a", 'b, "quoted"', "c"):
        table.append(Outcome(name, "aligned", score="-0.5", reason="line, with comma"))
    content = table.path.read_bytes()
    assert Table(table.path).rows == table.rows
    for length in range(len(content)):
        table.path.write_bytes(content[:length])
        back = list(Table(table.path).rows.values())
        assert back[:-1] == list(table.rows.values())[: max(len(back) - 1, 0)]
    table.path.write_bytes(content)
    table.finish(["c", "a"])
    assert list(Table(table.path).rows) == ["c", "a"]


def test_other_options_are_another_result(jobs):
    job = jobs[0]
    assert job.inputs(Options()) == job.inputs(Options())
    assert len({job.inputs(Options()), job.inputs(Options(cues="words")), job.inputs(Options(model="x"))}) == 3
