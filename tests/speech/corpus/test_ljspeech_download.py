import hashlib
import io
import re
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from clock_attention.speech.corpus.ljspeech_download import Archive, fetch


def packed_corpus() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:bz2") as archive:
        for name, content in (("Corpus/metadata.csv", b"a|text\n"), ("Corpus/wavs/a.wav", bytes(range(256)) * 40)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


CONTENT = packed_corpus()


class Server(ThreadingHTTPServer):
    break_after: int | None = None
    ranges: bool = True
    asked: list[str | None]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        start = int(re.findall(r"\d+", wanted)[0]) if wanted and self.server.ranges else 0
        self.send_response(206 if wanted and self.server.ranges else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        self.wfile.write(CONTENT[start : self.server.break_after])
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def archive_at(server: Server, sha256: str = hashlib.sha256(CONTENT).hexdigest()) -> Archive:
    return Archive(f"http://127.0.0.1:{server.server_port}/corpus.tar.bz2", sha256, len(CONTENT), "Corpus")


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_download_is_continued(server: Server, tmp_path: Path, ranges: bool) -> None:
    server.break_after, server.ranges = 100, ranges
    with pytest.raises(ConnectionError, match="run the command again: it continues"):
        fetch(archive_at(server), tmp_path)
    server.break_after = None
    received: list[int] = []
    corpus = fetch(archive_at(server), tmp_path, received.append)
    assert server.asked == [None, "bytes=100-"]
    assert received[-1] == len(CONTENT)
    assert (corpus / "metadata.csv").read_text() == "a|text\n"
    assert (corpus / "wavs" / "a.wav").stat().st_size == 256 * 40
    assert fetch(archive_at(server), tmp_path) == corpus
    assert len(server.asked) == 2


def test_a_wrong_checksum_is_refused_and_the_file_removed(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected 0000"):
        fetch(archive_at(server, sha256="0000"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_put_there_by_hand_is_used(server: Server, tmp_path: Path) -> None:
    (tmp_path / "corpus.tar.bz2").write_bytes(CONTENT)
    assert (fetch(archive_at(server), tmp_path) / "metadata.csv").exists()
    assert server.asked == []


def test_an_incomplete_archive_put_there_by_hand_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "corpus.tar.bz2").write_bytes(CONTENT[:50])
    with pytest.raises(ValueError, match="has 50 bytes"):
        fetch(archive_at(server), tmp_path)


def test_no_network_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="corpus synthesize"):
        fetch(Archive("http://127.0.0.1:1/corpus.tar.bz2", "0", 10, "Corpus"), tmp_path)
