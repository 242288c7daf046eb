"""What all tables are made of: the measurements, and how numbers are written."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

MADE: dict[str, Callable[[], str]] = {}


def made(function: Callable[[], str]) -> Callable[[], str]:
    MADE[function.__name__] = function
    return function


@cache
def read(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def percent(rate: dict[str, float], digits: int = 2) -> str:
    estimate, low, high = (f"{100 * rate[key]:.{digits}f}" for key in ("estimate", "low", "high"))
    return f"{estimate}\u00a0% [{low},\u00a0{high}]"  # breaks only before the interval


def percent_interval(rate: Sequence[float]) -> str:
    """A rate that is stored as estimate, low and high end."""
    return percent(dict(zip(("estimate", "low", "high"), rate, strict=True)), 1)


def points(text: str) -> str:
    """-2.89 [-4.54, -1.52] → −2.9 [−4.5, −1.5]"""
    rounded = re.sub(r"[+-]?\d+\.\d+", lambda found: f"{float(found[0]):+.1f}", text)
    return rounded.replace("-", "−").replace(", ", ",\u00a0")


def interval(values: Sequence[float], digits: int = 2) -> str:
    estimate, low, high = (f"{value:.{digits}f}" for value in values)
    return f"{estimate} [{low}, {high}]"


def bracketed(row: dict[str, float], digits: int = 1) -> str:
    return f"{row['value']:.{digits}f} [{row['low']:.{digits}f}, {row['high']:.{digits}f}]"


def over_seeds(values: Sequence[float], digits: int = 2) -> str:
    return interval((statistics.mean(values), min(values), max(values)), digits)
