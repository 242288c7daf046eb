"""Files: atomic writes, locks, temporary files, left-overs of killed processes, listing, and reading UTF-8."""

from __future__ import annotations

import codecs
import contextlib
import errno
import hashlib
import logging
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from clock_attention.processes import is_alive

logger = logging.getLogger(__name__)

# Part of temporary names: process IDs are valid on one machine only, and folders may be shared by several machines.
HOST = hashlib.sha256(platform.node().encode()).hexdigest()[:6]
LONGEST_NAME = 200  # bytes of the final name kept in a temporary one; file systems allow 255 in all


class LockedError(OSError):
    """A folder is locked: another process writes to it."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file atomically: a temporary path that replaces `path` if the block succeeds; otherwise it is removed."""
    temporary = temporary_name(path)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file atomically: text (UTF-8, newlines as given) or bytes."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def check_writable(path: str | Path) -> Path:
    """Check that a file can be written, before any work is done."""
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path}: is a folder, expected the name of a file to write")
    if path.parent.exists() and not path.parent.is_dir():
        raise ValueError(f"{path}: {path.parent} is a file, expected a folder")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist; create it first")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path}: the folder {path.parent} is not writable")
    return path


def check_ending(path: str | Path, endings: Sequence[str]) -> Path:
    """Check that a file to write has one of these endings and can be written; returns its path."""
    path = Path(path)
    if path.suffix.lower() not in [ending.lower() for ending in endings]:
        raise ValueError(f"{path}: expected a name ending in {', '.join(endings)}")
    return check_writable(path)


def read_utf8(path: Path) -> str:
    """The text of a file, which must be UTF-8."""
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        likely = "utf-16" if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "latin1"
        raise ValueError(
            f"{path} is not UTF-8 (byte {error.start}): convert it, e.g. with iconv -f {likely} -t utf-8"
        ) from None


def visible_files(folder: Path) -> Iterator[Path]:
    """Files in a folder and its subfolders: none hidden, links to folders followed once and never in cycles."""
    place = folder.resolve()
    yield from _visible_below(folder, {place, *place.parents})


def _visible_below(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """Files below one folder; folders already seen are not entered again."""
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_file():  # no pipes or devices, which have no end
            yield path
        elif path.is_dir() and (place := path.resolve()) not in seen:
            seen.add(place)
            yield from _visible_below(path, seen)


def make_folder(path: Path) -> Path:
    """Check that a folder is writable, creating it if needed; errors say why it is not."""
    for part in (path, *path.parents):
        if part.exists():
            if not part.is_dir():
                raise NotADirectoryError(f"{path}: {part} is a file, expected a folder")
            if not os.access(part, os.W_OK | os.X_OK):
                raise PermissionError(f"{path}: the folder {part} is not writable")
            break
    path.mkdir(parents=True, exist_ok=True)
    return path


def temporary_name(path: Path) -> Path:
    """Name of the temporary file that will become `path`. Removes left-overs of earlier attempts by dead processes."""
    remove_left_overs(path)
    return path.with_name(f"{_temporary_prefix(path)}{os.getpid()}.tmp")


def remove_left_overs(path: Path) -> None:
    """Remove temporary files of `path` whose process on this machine has ended without removing them."""
    prefix = _temporary_prefix(path)
    pattern = re.compile(re.escape(prefix) + r"(\d+)\.tmp")
    with contextlib.suppress(OSError):
        for name in os.listdir(path.parent):
            match = pattern.fullmatch(name)
            if match and not is_alive(int(match[1])):
                # Where processes cannot be queried (Windows), a file that is in use cannot be removed either.
                with contextlib.suppress(OSError):
                    path.with_name(name).unlink()


def _temporary_prefix(path: Path) -> str:
    """Prefix of the names of temporary files of `path`."""
    name = path.name
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}.{HOST}-"


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Lock a folder for this process; raises `LockedError` if another one has locked it.

    The operating system releases the lock when the process ends, however it ends: the file `.lock` that stays behind
    locks nothing.
    """
    make_folder(folder)
    path = folder / ".lock"
    with open(path, "a+", encoding="utf-8") as file:
        if not _lock(file):
            raise LockedError(
                f"{folder}: another process is writing {what} there ({_owner(file)}); wait for it, or choose another "
                "folder"
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        yield


def _owner(file: IO[str]) -> str:
    """The process that has locked a folder, according to its lock file."""
    with contextlib.suppress(OSError):  # on Windows, others cannot read a locked file
        file.seek(0)
        return file.read(200).strip() or "unknown"
    return "unknown"


def _lock(file: IO[str]) -> bool:
    """Lock an open lock file until it is closed; False if another process holds the lock."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        # Some network file systems do not support locks.
        logger.warning("%s cannot be locked (%s): make sure that only one process writes there", file.name, error)
    return True


def temporary_folder(purpose: str) -> Path:
    """Create a temporary folder of this process. Removes those of dead processes with the same purpose."""
    prefix = f"clock-attention-{purpose}-{HOST}-"
    pattern = re.compile(re.escape(prefix) + r"(\d+)-\w+")
    root = Path(tempfile.gettempdir())
    if sys.platform != "win32":  # there, `is_alive` cannot tell
        for name in os.listdir(root):
            match = pattern.fullmatch(name)
            if match and not is_alive(int(match[1])):
                shutil.rmtree(root / name, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=root))
