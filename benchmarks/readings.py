"""Is what people write read as people read it?

    python benchmarks/readings.py --ljspeech metadata.csv --out results/readings.json

Scores this project's front end, hibari's and eSpeak NG's on the list in tests/readings. A reader that prints no words
is judged by its sounds: a case is right if the reader says the same phones for the written text as for the expected
words, both by its own rules (stress and the kind of reduced vowel do not count). That leaves out how well it pronounces
words. Names are the exception: their phones are compared with the list's.

With --ljspeech (LJSpeech's metadata.csv, whose columns are the text as printed and as it was read), the same is done
for all of its lines whose two columns differ: cases that this project did not write. Their conventions differ from
the list's in places ("November 22" is written out as "November twenty-two"), for all systems alike.

--work also measures the processor time that hostile texts take, up to 100,000 characters.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hibari.g2p import G2P
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from clock_attention.speech.text.ipa import phones
from clock_attention.speech.text.phonemes import UnreadableTextError
from clock_attention.speech.text.phonemizers import phonemizer
from clock_attention.speech.text.sentences import sentences
from tests.readings.cases import NAMES, NUMBER, SENTENCES, Case, cases, normalized, same_sound

ESPEAK = ("espeak-ng", "-q", "--ipa", "-v", "en-us", "--stdin")
HOSTILE = {
    "prose": "The quick brown fox paid $3.50 at 7:30 p.m. on May 5, 1999, and ran 12 km. ",
    "digits": "9",
    "fractions": "1/",
    "dots": ".",
    "hyphens": "a-",
    "capitals": "aB",
    "initials": "A.",
    "tags": "<a ",
    "brackets": "[a](",
    "grouped digits": "1,234,",
    "no spaces": "x",
}
Reader = Callable[[str], str]


def plain_sound(ipa: str) -> str:
    """Phones without stress, marks and the differences between weak forms."""
    ipa = re.sub(r"[^\w\u0250-\u02af]|[ˈˌːˑ_]", "", same_sound(ipa))
    return ipa.replace("ɐ", "A").replace("eɪ", "A").replace("ʊ", "u").replace("i", "ɪ")


@cache
def ours() -> Any:
    return phonemizer()


@cache
def said_by_us(text: str) -> str:
    try:
        return plain_sound("".join(ours()(text).tokens))
    except UnreadableTextError:
        return ""


@cache
def hibari() -> Any:
    return G2P()


@cache
def said_by_hibari(text: str) -> str:
    return plain_sound(hibari()(text))


@cache
def said_by_espeak(text: str) -> str:
    done = subprocess.run(ESPEAK, input=text, capture_output=True, text=True, check=True)
    return plain_sound(done.stdout)


def variants(words: str) -> set[str]:
    """The same words with the differences that never count: "and" inside numbers, oh or zero."""
    with_and = re.sub(rf"\b(hundred|thousand|million) (?=(?:{NUMBER})\b)", r"\1 and ", words)
    forms = {words, with_and}
    forms |= {form.replace("zero", "oh") for form in forms} | {re.sub(r"\boh\b", "zero", form) for form in forms}
    return forms


def right_by_sound(reader: Reader, case: Case) -> bool:
    output = reader(case.written)
    readings = (reading.replace(" / ", ". ") for reading in case.readings)
    return any(output == reader(form) for reading in readings for form in variants(reading))


def right_name(reader: Reader, case: Case) -> bool:
    """The reader's phones, in our symbols, among those of the list."""

    def known(ipa: str) -> str:
        return plain_sound("".join(map("".join, phones(ipa)))).replace("Oɹ", "ɔɹ").replace("ɪə", "ɪ")

    return known(reader(case.written)) in set(map(known, case.readings))


def right_words(case: Case) -> bool:
    joint = " / " if case.kind == SENTENCES else " "
    output = joint.join(normalized(sentence.spoken) for sentence in sentences(case.written))
    return output in set(map(normalized, case.readings))


def espeak_ipa(text: str) -> str:
    return (
        subprocess.run(ESPEAK, input=text, capture_output=True, text=True, check=True).stdout.strip().replace("_", "")
    )


def systems() -> dict[str, Callable[[Case], bool]]:
    def by_sound(reader: Reader, ipa: Reader) -> Callable[[Case], bool]:
        return lambda case: right_name(ipa, case) if case.kind == NAMES else right_by_sound(reader, case)

    mine = by_sound(said_by_us, lambda text: "".join(ours()(text).tokens))
    found = {
        "clock-attention, words and breaks": lambda case: mine(case) if case.kind == NAMES else right_words(case),
        "clock-attention": mine,
        "hibari": by_sound(said_by_hibari, lambda text: hibari()(text)),
    }
    try:
        espeak_ipa("one")
    except (OSError, subprocess.CalledProcessError):
        print("eSpeak NG is not installed: left out", file=sys.stderr)
    else:
        found["eSpeak NG"] = by_sound(said_by_espeak, espeak_ipa)
    return found


def wilson(right: int, total: int) -> list[float]:
    """Share of right cases, and its 95 % Wilson interval."""
    z, share = 1.96, right / total
    centre, spread = share + z * z / (2 * total), z * math.sqrt(share * (1 - share) / total + (z / (2 * total)) ** 2)
    return [share, *((centre + sign * spread) / (1 + z * z / total) for sign in (-1, 1))]


def score(judge: Callable[[Case], bool], listed: Iterable[Case]) -> dict[str, Any]:
    results = defaultdict(list)
    wrong = []
    for case in listed:
        right = judge(case)
        results[case.kind].append(right)
        if not right:
            wrong.append(case.key)
    right, total = (sum(map(count, results.values())) for count in (sum, len))
    kinds = {kind: [sum(found), len(found)] for kind, found in sorted(results.items())}
    return {"right": right, "total": total, "share": wilson(right, total), "kinds": kinds, "wrong": wrong}


def ljspeech(path: Path, limit: int | None) -> list[Case]:
    """Lines that were not read as they were printed."""
    rows = [line.rstrip("\n").split("|") for line in path.read_text("utf-8").splitlines()]
    found = [Case("ljspeech", row[1], (row[2],)) for row in rows if normalized(row[1]) != normalized(row[2])]
    return found if limit is None else found[:: -(-len(found) // limit)]


def work() -> dict[str, dict[str, float]]:
    """Processor seconds: the front end on 10,000 and 100,000 characters, and the whole reader on 10,000."""
    measured = {}
    for name, piece in HOSTILE.items():
        seconds = {}
        for length in (10_000, 100_000):
            text = (piece * (length // len(piece) + 1))[:length]
            began = time.process_time()
            sentences(text)
            seconds[f"front end, {length}"] = round(time.process_time() - began, 3)
        text = (piece * (10_000 // len(piece) + 1))[:10_000]
        began = time.process_time()
        said_by_us(text)
        seconds["phonemes, 10000"] = round(time.process_time() - began, 3)
        measured[name] = seconds
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ljspeech", type=Path, help="metadata.csv of LJSpeech")
    parser.add_argument("--limit", type=int, help="at most so many of its lines, evenly spaced")
    parser.add_argument("--work", action="store_true", help="also measure the time that hostile texts take")
    parser.add_argument("--out", type=Path, default=Path("results/readings.json"))
    arguments = parser.parse_args()
    listed = cases()
    result: dict[str, Any] = {
        "list": {name: score(judge, listed) for name, judge in systems().items()},
        "versions": {"clock-attention": version("clock-attention"), "hibari-tts": version("hibari-tts")},
    }
    if arguments.ljspeech:
        lines = ljspeech(arguments.ljspeech, arguments.limit)
        judges = {name: judge for name, judge in systems().items() if name != "clock-attention, words and breaks"}
        result["ljspeech"] = {name: score(judge, lines) for name, judge in judges.items()}
        for scored in result["ljspeech"].values():
            del scored["wrong"], scored["kinds"]
    if arguments.work:
        result["work"] = work()
    show(result)
    arguments.out.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", "utf-8")


def show(result: dict[str, Any]) -> None:
    table = Table("kind", *result["list"])
    first = next(iter(result["list"].values()))
    for kind in first["kinds"]:
        table.add_row(kind, *("{} / {}".format(*scored["kinds"][kind]) for scored in result["list"].values()))
    table.add_row("all", *(f"{100 * scored['share'][0]:.1f} %" for scored in result["list"].values()))
    console = Console()
    console.print(table)
    for name, scored in result.get("ljspeech", {}).items():
        console.print(f"LJSpeech, {name}: {scored['right']} / {scored['total']}")
    for name, seconds in result.get("work", {}).items():
        console.print(f"{name}: {seconds}")


if __name__ == "__main__":
    main()
