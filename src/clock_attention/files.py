"""Files: written completely or not at all, locked, temporary, left over by killed processes, listed, read as UTF-8."""

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

# Of temporary names: process numbers mean something on one machine only, and folders may be shared by several.
HOST = hashlib.sha256(platform.node().encode()).hexdigest()[:6]
LONGEST_NAME = 200  # bytes of a name that a temporary one repeats; file systems allow 255 for all of it


class LockedError(OSError):
    """A folder is locked: another process writes to it."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file atomically: a temporary path that replaces `path` when the block ends well; else nothing is left."""
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
    """The path of a file to write, if its name has one of these endings and it can be written."""
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
    """Files in a folder and below: none hidden, links to folders followed once and never in circles."""
    place = folder.resolve()
    yield from _visible_below(folder, {place, *place.parents})


def _visible_below(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """Files below one folder; folders that were seen are not entered again."""
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_file():  # no pipes and devices, which have no end
            yield path
        elif path.is_dir() and (place := path.resolve()) not in seen:
            seen.add(place)
            yield from _visible_below(path, seen)


def make_folder(path: Path) -> Path:
    """A folder that can be written to, made if need be, or an error that says why not."""
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
    """The temporary file for what will become `path`. Removes left-overs of dead processes' earlier attempts."""
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
                # Where processes cannot be asked for (Windows), a file that is in use cannot be removed either.
                with contextlib.suppress(OSError):
                    path.with_name(name).unlink()


def _temporary_prefix(path: Path) -> str:
    """How the name of a temporary file of `path` begins."""
    name = path.name
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}.{HOST}-"


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Lock a folder for this process; `LockedError` where another one has locked it.

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
    """Which process has locked a folder, as its lock file says."""
    with contextlib.suppress(OSError):  # Windows does not let others read what is locked
        file.seek(0)
        return file.read(200).strip() or "unknown"
    return "unknown"


def _lock(file: IO[str]) -> bool:
    """Lock an open lock file until it is closed; False where another process has it."""
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
        # Some network file systems have no locks.
        logger.warning("%s cannot be locked (%s): make sure that only one process writes there", file.name, error)
    return True


def temporary_folder(purpose: str) -> Path:
    """A new temporary folder of this process. Removes those of dead processes with the same purpose."""
    prefix = f"clock-attention-{purpose}-{HOST}-"
    pattern = re.compile(re.escape(prefix) + r"(\d+)-\w+")
    root = Path(tempfile.gettempdir())
    if sys.platform != "win32":  # where it cannot be told
        for name in os.listdir(root):
            match = pattern.fullmatch(name)
            if match and not is_alive(int(match[1])):
                shutil.rmtree(root / name, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=root))
