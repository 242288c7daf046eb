"""The page's HTTP interface: one server, and what it must not do for strangers."""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

gr = pytest.importorskip("gradio", reason="needs the extra clock-attention[app]")

from clock_attention.app import speaker as speaker_module  # noqa: E402
from clock_attention.app.page import LOOK, guarded, page  # noqa: E402
from clock_attention.app.speaker import LONGEST, Speaker  # noqa: E402
from clock_attention.files import temporary_folder  # noqa: E402
from clock_attention.serve.guard import MOST_BYTES, Guard, without_port  # noqa: E402
from clock_attention.speech.voice.voice import Voice  # noqa: E402
from tests.speech.voices import tiny_voice  # noqa: E402


@pytest.fixture(scope="module")
def speaker(tmp_path_factory):
    speaker = Speaker(Voice.load(tiny_voice(tmp_path_factory.mktemp("guard") / "voice")), vocoder="griffin-lim")
    yield speaker
    speaker.close()


@pytest.fixture(scope="module")
def server(speaker):
    """Host and port of a page that is up."""
    blocks = page(speaker)
    _, url, _ = blocks.launch(prevent_thread_lock=True, quiet=True, **{**LOOK, **guarded("127.0.0.1", ["tts.example"])})
    yield urlsplit(url).hostname, urlsplit(url).port
    blocks.close()


def ask(server, method, path, *, body=None, headers=None):
    connection = http.client.HTTPConnection(*server, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_only_names_that_were_bound_are_answered(server):
    for host in ("127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:7860", "tts.example"):
        assert ask(server, "GET", "/config", headers={"Host": host})[0] == 200, host
    for host in ("evil.example", "127.0.0.1.evil.example", "192.168.0.7", "", "localhost@evil.example"):
        assert ask(server, "GET", "/config", headers={"Host": host})[0] == 421, host


def test_nothing_can_be_uploaded_and_nothing_large_sent(server):
    form = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n1\r\n--x--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    for path in ("/gradio_api/upload", "/upload", "/gradio_api/upload/"):
        assert ask(server, "POST", path, body=form, headers=headers)[0] == 403
    large = json.dumps({"data": ["x" * MOST_BYTES], "fn_index": 0, "session_hash": "s"})
    assert ask(server, "POST", "/gradio_api/queue/join", body=large)[0] == 413
    pieces = (b"x" * 65536 for _ in range(8))  # without a Content-Length
    headers = {"Content-Type": "application/json"}
    assert ask(server, "POST", "/gradio_api/queue/join", body=pieces, headers=headers)[0] in (400, 413)


def speak(server, session, text):
    """Put a request into the queue."""
    data = [text, 1.0, "", "parallel", "voice"]
    config = json.loads(ask(server, "GET", "/config")[1])
    place = next(one["id"] for one in config["dependencies"] if len(one["inputs"]) == len(data))
    request = json.dumps({"data": data, "fn_index": place, "session_hash": session})
    headers = {"Content-Type": "application/json"}
    return ask(server, "POST", "/gradio_api/queue/join", body=request, headers=headers)


def events(server, session):
    return ask(server, "GET", f"/gradio_api/queue/data?session_hash={session}")[1].decode()


def test_a_text_that_would_last_too_long_is_refused_before_it_is_spoken(server, speaker, monkeypatch):
    decoders = speaker.decoders()
    monkeypatch.setitem(decoders, "parallel", unspoken(decoders["parallel"]))
    assert speak(server, "long", "9" * 600)[0] == 200
    assert f"more than {LONGEST:g} seconds" in events(server, "long")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the resident memory from /proc")
def test_refused_requests_keep_no_memory(server, speaker):
    """Such a request once took minutes and its memory; a refused one holds nothing afterwards."""

    def refuse(first, last):
        for number in range(first, last):
            assert speak(server, f"again-{number}", "9" * 600)[0] == 200
            assert "seconds" in events(server, f"again-{number}")

    refuse(0, 5)  # what is loaded once
    before = resident_mebibytes()
    refuse(5, 30)
    assert resident_mebibytes() - before < 25


def resident_mebibytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def unspoken(voice):
    """The same voice, which must not be asked to speak."""

    class Silent(Voice):
        def vocoder(self, name="auto"):
            pytest.fail("spoke")

    return Silent(voice.card, voice.model, voice.path)


def test_work_stops_when_no_client_waits_for_it(server, speaker, monkeypatch):
    """The visitor leaves after the first of a thousand sentences."""
    started, result, speech = threading.Event(), [], speaker.speak("One.", decoding="parallel")

    def slow(text, **options):
        for number in range(1000):
            result.append(number)
            started.set()
            time.sleep(0.02)
            yield speech

    monkeypatch.setattr(speaker, "speak_in_steps", slow)
    assert speak(server, "gone", "One.")[0] == 200
    connection = http.client.HTTPConnection(*server, timeout=60)
    connection.request("GET", "/gradio_api/queue/data?session_hash=gone")
    answer = connection.getresponse()
    assert started.wait(60)
    answer.close()
    connection.close()
    count = -1
    while len(result) != count:
        count = len(result)
        time.sleep(2)
    assert count < 1000


def test_work_has_an_end(speaker, monkeypatch):
    monkeypatch.setattr(speaker_module, "LONGEST_WORK", 0.0)
    with pytest.raises(ValueError, match="seconds of work"):
        speaker.speak("One. Two.", decoding="parallel")


def test_files_of_requests_go_with_the_program(tmp_path, monkeypatch):
    """Gradio keeps copies of its own: they lie in the same folder, which the next start removes if nobody else did."""
    code = (
        "import os; from clock_attention.files import temporary_folder; folder = temporary_folder('app');"
        "(folder / 'x').write_text('x'); print(folder, flush=True); os.kill(os.getpid(), 9)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    left = Path(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment).stdout.strip()
    )
    assert (left / "x").exists()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine = temporary_folder("app")
    assert [path.name for path in tmp_path.iterdir()] == [mine.name]


def test_copies_lie_in_the_folder_that_is_removed(server, speaker):
    assert speak(server, "files", "One.")[0] == 200
    assert "process_completed" in events(server, "files")
    assert list(speaker.cache.rglob("speech.wav"))


@pytest.mark.parametrize(
    ("bound", "host", "known"),
    [
        ("0.0.0.0", "192.168.0.7:7860", True),
        ("0.0.0.0", "evil.example", False),
        ("::", "[fe80::1]:7860", True),
        ("192.168.0.7", "192.168.0.7", True),
        ("192.168.0.7", "192.168.0.8", False),
        ("192.168.0.7", "localhost", False),
    ],
)
def test_who_is_known_depends_on_what_was_bound(bound, host, known):
    assert Guard(None, bound).knows(host) is known


def test_ports_are_cut_off():
    assert [without_port(host) for host in ("a:1", "a", "[::1]:2", "[::1]", "")] == ["a", "a", "::1", "::1", ""]
