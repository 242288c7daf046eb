"""`clock-attention vocoder`."""

from typer.testing import CliRunner

from clock_attention.commands import vocoder
from clock_attention.commands.main import app


def test_mistakes_are_answered_with_a_sentence(tmp_path):
    for arguments in (
        ["train", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")],
        ["distil", str(tmp_path / "no.txt"), "--out", str(tmp_path / "out")],
    ):
        result = CliRunner().invoke(app, ["vocoder", *arguments])
        assert result.exit_code == 1
        assert "error:" in result.output
        assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_progress_is_a_line_now_and_then(capsys):
    for step in range(1, 51):
        vocoder.report(step, {"mel": 0.5})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["step 1", "step 25", "step 50"]
    assert lines[0].endswith("mel 0.500")
