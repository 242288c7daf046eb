"""`clock-attention serve` as a program: it starts, answers, says what is wrong, and stops when told to."""

import os
import signal
import subprocess
import sys

import httpx
import pytest
from typer.testing import CliRunner

pytest.importorskip("fastapi", reason="needs the extra clock-attention[serve]")

from clock_attention.commands.serve import KEY, api_key, body_limit, speaking
from clock_attention.speech.voice.voice import Voice
from tests.serve.conftest import free_port
from tests.speech.voices import tiny_aligned_voice, tiny_voice


def test_it_serves_until_it_is_stopped(tmp_path):
    voice = tiny_voice(tmp_path / "voice")
    arguments = ["serve", "--voice", str(voice), "--vocoder", "griffin-lim", "--port", "0", "--workers", "1"]
    program = subprocess.Popen(
        [sys.executable, "-m", "clock_attention.commands.main", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, KEY: "secret"},
    )
    try:
        line = next(line for line in program.stderr if "listening at" in line)
        address = line.split()[2]
        assert httpx.get(f"{address}/models", timeout=60).status_code == 401
        headers = {"authorization": "Bearer secret"}
        answer = httpx.post(f"{address}/audio/speech", json={"input": "One."}, headers=headers, timeout=60)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "audio/mpeg")
        program.send_signal(signal.SIGTERM)
        assert program.wait(60) == 0
        assert "Traceback" not in program.stderr.read()
    finally:
        program.kill()
        program.stderr.close()


def test_errors_are_one_sentence(tmp_path):
    import typer

    from clock_attention.commands.serve import serve

    alone = typer.Typer()
    alone.command()(serve)
    runner = CliRunner()
    failed = runner.invoke(alone, ["--voice", "nowhere"])
    assert failed.exit_code == 1
    assert "nowhere: not a voice" in failed.output
    failed = runner.invoke(alone, ["--api-key-file", str(tmp_path / "key")])
    assert "cannot be read" in failed.output
    voice = tiny_voice(tmp_path / "voice")
    failed = runner.invoke(alone, ["--voice", str(voice), "--vocoder", "griffin-lim", "--wyoming", "127.0.0.1"])
    assert failed.exit_code == 1
    assert "tcp://127.0.0.1:10200" in failed.output


def test_a_port_that_is_taken_is_named():
    from clock_attention.serve.server import listening

    port = free_port()
    with listening("127.0.0.1", port), pytest.raises(OSError, match=f"{port}: cannot listen"):
        listening("127.0.0.1", port)


def test_keys_come_from_a_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv(KEY, raising=False)
    assert api_key(None) is None
    monkeypatch.setenv(KEY, "a")
    assert api_key(None) == "a"
    (tmp_path / "key").write_text("b\n")
    assert api_key(tmp_path / "key") == "b"
    (tmp_path / "key").write_text("")
    with pytest.raises(ValueError, match="empty"):
        api_key(tmp_path / "key")


def test_the_longest_text_fits_into_a_request():
    assert body_limit(100_000) > 100_000 * 6 * 2


def test_every_speaker_is_a_voice(tmp_path):
    duo = Voice.load(tiny_aligned_voice(tmp_path / "duo", speakers=("ann", "bob")))
    found = dict(speaking("duo", duo))
    assert {name: voice.speaker for name, voice in found.items()} == {"duo": "ann", "duo:ann": "ann", "duo:bob": "bob"}
    alone = Voice.load(tiny_aligned_voice(tmp_path / "alone"))
    assert list(speaking("alone", alone)) == [("alone", alone)]
