"""Runs the cases of a fuzzer: in processes of their own, so that a crash is counted and the rest goes on."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import random
import signal
import struct
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LIMIT = 10.0  # seconds of CPU time for a case: a busy machine makes nothing hang
RESULTS = Path(__file__).parents[2] / "results" / "fuzz.json"


class HangError(BaseException):
    """Not an Exception: nothing that is tested may catch it."""


class DifferenceError(AssertionError):
    """A result that should have been the same, or within its tolerance."""


class Fuzzer(ABC):
    """A source of cases. `case` returns a word for what happened; any exception is a failure."""

    name: str
    chunk = 500  # cases in one process

    @abstractmethod
    def start(self, folder: Path) -> None:
        """Called once in each process, with an empty folder."""

    @abstractmethod
    def case(self, chance: random.Random) -> str: ...


@contextlib.contextmanager
def limited(seconds: float = LIMIT) -> Iterator[None]:
    def hang(*_: object) -> None:
        raise HangError

    previous = signal.signal(signal.SIGPROF, hang)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def run_case(fuzzer: Fuzzer, seed: int, number: int) -> tuple[str, str]:
    """(what happened, details): a fuzzer's own word, or "crash", "hang" or "difference"."""
    chance = random.Random(f"{fuzzer.name}:{seed}:{number}")
    try:
        with limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fuzzer.case(chance), ""
    except HangError:
        return "hang", ""
    except DifferenceError as error:
        return "difference", str(error)[:500]
    except Exception:
        return "crash", traceback.format_exc()[-1500:]


FAILURES = ("crash", "hang", "difference")


def run_here(fuzzer: Fuzzer, folder: Path, seed: int, count: int, first: int = 0) -> Counter[str]:
    """In this process; the first failure is an error."""
    fuzzer.start(folder)
    counts: Counter[str] = Counter()
    for number in range(first, first + count):
        word, detail = run_case(fuzzer, seed, number)
        assert word not in FAILURES, f"{fuzzer.name}, seed {seed}, case {number}: {word}\n{detail}"
        counts[word] += 1
    return counts


def run_apart(
    fuzzer: Fuzzer, folder: Path, seed: int, count: int, resume: bool = False, say: Any = print
) -> dict[str, Any]:
    """In child processes; failures are counted and listed. With `resume`, after the cases that are recorded already."""
    number, counts, failures, seconds = recorded(fuzzer.name, seed) if resume else (0, Counter[str](), [], 0.0)
    place = mmap.mmap(-1, 8)  # the case that the child is at
    started = time.monotonic() - seconds
    while number < count:
        stop = min(count, number + fuzzer.chunk)
        report = folder / f"{number}.jsonl"
        child = os.fork()
        if child == 0:
            child_main(fuzzer, folder / f"work-{number}", seed, range(number, stop), place, report)
        _, status = os.waitpid(child, 0)
        rows = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
        report.unlink(missing_ok=True)
        for case, word, detail in rows:
            counts[word] += 1
            if word in FAILURES:
                failures.append({"case": case, "what": word, "detail": detail})
        if status != 0:
            reached = struct.unpack("q", place[:8])[0]
            counts["crash"] += 1
            failures.append({"case": reached, "what": "crash", "detail": f"the process ended with status {status}"})
            stop = reached + 1
        number = stop
        say(f"{fuzzer.name}: {number}/{count} {dict(counts)} {time.monotonic() - started:.0f} s", flush=True)
        record(fuzzer.name, seed, number, counts, failures, time.monotonic() - started)
    return {"counts": counts, "failures": failures}


def child_main(fuzzer: Fuzzer, folder: Path, seed: int, numbers: range, place: Any, report: Path) -> None:
    status = 1
    try:
        folder.mkdir(parents=True)
        fuzzer.start(folder)
        with open(report, "w", encoding="utf-8") as lines:
            for number in numbers:
                place[:8] = struct.pack("q", number)
                word, detail = run_case(fuzzer, seed, number)
                lines.write(json.dumps([number, word, detail]) + "\n")
                lines.flush()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            import shutil

            shutil.rmtree(folder)
        os._exit(status)


def recorded(name: str, seed: int) -> tuple[int, Counter[str], list[dict[str, Any]], float]:
    """Cases of this seed in results/fuzz.json: how many, what became of them, failures and seconds."""
    found = json.loads(RESULTS.read_text()).get(name, {}) if RESULTS.exists() else {}
    if found.get("seed") != seed:
        return 0, Counter(), [], 0.0
    counts = Counter({word: found[word] for word in FAILURES}) + Counter(found["outcomes"])
    return found["cases"], counts, found["failures"], float(found["seconds"])


def record(name: str, seed: int, cases: int, counts: Counter[str], failures: list[Any], seconds: float) -> None:
    """Into results/fuzz.json, beside what other fuzzers have found."""
    import fcntl

    RESULTS.parent.mkdir(exist_ok=True)
    with open(RESULTS, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        table = json.loads(file.read() or "{}")
        table[name] = {
            "command": f"python -m tests.fuzz {name} --count {cases} --seed {seed}",
            "seed": seed,
            "cases": cases,
            **{word: counts.get(word, 0) for word in FAILURES},
            "outcomes": {word: n for word, n in sorted(counts.items()) if word not in FAILURES},
            "failures": failures[:20],
            "seconds": round(seconds),
        }
        file.truncate(0)
        file.write(json.dumps(table, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
