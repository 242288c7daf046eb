"""Download LJSpeech-1.1, resuming after interruptions and verifying the checksum."""

from __future__ import annotations

import hashlib
import os
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHUNK = 1 << 20


@dataclass(frozen=True)
class Archive:
    """The archive of LJSpeech to download: address, checksum, size."""

    url: str
    sha256: str
    size: int
    folder: str


LJSPEECH = Archive(
    url="https://data.keithito.com/data/speech/LJSpeech-1.1.tar.bz2",
    sha256="be1a30453f28eb8dd26af4101ae40cbf2c50413b1bb21936cbcdc6fae3de8aa5",
    size=2_748_572_632,
    folder="LJSpeech-1.1",
)


def fetch(archive: Archive, into: str | Path, report: Callable[[int], None] = lambda received: None) -> Path:
    """Download LJSpeech, verify and unpack it; returns the corpus folder. Finished steps are not repeated.

    `report` receives the number of bytes that are on disk so far.
    """
    into = Path(into)
    corpus = into / archive.folder
    if (corpus / "metadata.csv").is_file():
        return corpus
    into.mkdir(parents=True, exist_ok=True)
    packed = into / Path(archive.url).name
    if not packed.exists():
        partial = packed.with_name(packed.name + ".part")
        try:
            receive(archive, partial, report)
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            raise ConnectionError(
                f"cannot fetch {archive.url}: {error}. If you are online, run the command again: it continues. If not, "
                f"fetch the file elsewhere, put it at {packed} and run the command again; or make a corpus "
                "offline with `clock-attention corpus synthesize`"
            ) from error
        verify(archive, partial)
        os.replace(partial, packed)
    elif packed.stat().st_size != archive.size:
        raise ValueError(f"{packed} has {packed.stat().st_size} bytes, expected {archive.size}: remove or replace it")
    else:
        verify(archive, packed)
    unpack(packed, into, archive.folder)
    return corpus


def receive(archive: Archive, partial: Path, report: Callable[[int], None]) -> None:
    """Download the missing part of the archive. A server that ignores the range sends everything: start over."""
    have = partial.stat().st_size if partial.exists() else 0
    if have >= archive.size:
        return
    request = urllib.request.Request(archive.url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=60) as answer:
        resumed = answer.status == 206
        have = have if resumed else 0
        with open(partial, "ab" if resumed else "wb") as file:
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                have += len(chunk)
                report(have)
    if have < archive.size:
        raise ConnectionError(f"the connection ended after {have} of {archive.size} bytes")


def verify(archive: Archive, path: Path) -> None:
    """Check the SHA-256 of the downloaded archive; if it is wrong, the archive is removed."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != archive.sha256:
        path.unlink()
        raise ValueError(
            f"{path.name} has SHA-256 {digest.hexdigest()}, expected {archive.sha256}: it was damaged or replaced in "
            "transit and has been removed; run the command again"
        )


def unpack(packed: Path, into: Path, folder: str) -> None:
    """Unpack the downloaded archive next to its destination, then rename: half an archive never looks complete."""
    temporary = into / f".{folder}.unpacking"
    with tarfile.open(packed) as archive:
        archive.extractall(temporary, filter="data")
    os.replace(temporary / folder, into / folder)
    temporary.rmdir()
