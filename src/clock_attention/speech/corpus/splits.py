"""Decide by the text which utterances are held out, so that no sentence is in two splits."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence

SPLITS = ("train", "valid", "test")


def text_key(text: str) -> str:
    """The key that decides an utterance's split; texts that differ only in case, marks, accents or spaces share one."""
    letters = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    words = re.sub(r"[\W_]+", " ", letters.casefold()).strip()
    return hashlib.sha256((words or text).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def assign_splits(groups: Sequence[str], texts: Sequence[str], valid: float, test: float) -> list[str]:
    """Split (train, valid, test) of each utterance, from a hash of the key of the text that it was cut from.

    Growing a corpus moves nothing between splits, with two exceptions. If a small corpus leaves a split empty, the
    group with the hash nearest to it is moved there. And if phrases of different groups say the same, all of them
    go to the first of train, valid and test that has one.
    """
    if valid < 0 or test < 0 or valid + test >= 1:
        raise ValueError(f"valid and test are fractions with valid + test < 1, got {valid} and {test}")
    place = {group: int.from_bytes(hashlib.sha256(group.encode()).digest()[:8], "big") / 2**64 for group in groups}
    split = {group: "valid" if x < valid else "test" if x < valid + test else "train" for group, x in place.items()}
    for name, fraction in (("valid", valid), ("test", test)):
        spare = sorted((group for group in split if split[group] == "train"), key=place.__getitem__)
        if fraction > 0 and name not in split.values() and len(spare) > 1:
            split[spare[0]] = name
    keys = [text_key(text) for text in texts]
    by_text: dict[str, str] = {}
    for group, key in zip(groups, keys, strict=True):
        by_text[key] = min(split[group], by_text.get(key, "test"), key=SPLITS.index)
    return [by_text[key] for key in keys]
