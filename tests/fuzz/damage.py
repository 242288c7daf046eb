"""What happens to files: bits flip, ends are lost, pieces are doubled, numbers in JSON become others."""

from __future__ import annotations

import json
import random
from typing import Any

NUMBERS = (0, -1, 1, 2**31, 2**63, 10**30, 1e300, -1e300, 0.5, float("nan"), float("inf"))
VALUES: tuple[Any, ...] = (*NUMBERS, None, True, False, "", "x" * 1000, "\ud800", [], {}, [[]], [1e9] * 3, {"a": 1})


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Bytes with one to three faults."""
    data = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        kind = chance.randrange(6)
        # The beginning of a file is where its structure is.
        place = chance.randrange(min(len(data), chance.choice([16, 64, 512, 10**9])) or 1) if data else 0
        if not data or kind == 0:
            data = data[: chance.randrange(len(data) + 1)]
        elif kind == 1:
            data[place] ^= 1 << chance.randrange(8)
        elif kind == 2:
            data[place : place + chance.choice([1, 2, 4, 8])] = chance.randbytes(chance.choice([1, 2, 4, 8]))
        elif kind == 3:
            data[place:place] = chance.randbytes(chance.randrange(1, 40))
        elif kind == 4:
            del data[place : place + chance.randrange(1, 40)]
        else:
            word = chance.choice([b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x01\x00\x00\x00", b"\x00\x00\x00\x80"])
            data[place : place + 4] = word
    return bytes(data)


def damaged_json(content: bytes, chance: random.Random) -> bytes:
    """One value of a JSON file replaced, removed or doubled; sometimes damaged as bytes instead."""
    if chance.random() < 0.3:
        return damaged(content, chance)
    table = json.loads(content)
    holders = list(containers(table))
    holder = chance.choice(holders)
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    if not keys:
        return content
    key = chance.choice(keys)
    kind = chance.randrange(4)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder[key], int | float):
        holder[key] = holder[key] * chance.choice([-1, 2, 10, 1000, 10**9]) + chance.choice([0, 1])
    elif kind == 2 and isinstance(holder, dict):
        holder[f"{key}x"] = holder[key]
    else:
        holder[key] = chance.choice(VALUES)
    return json.dumps(table).encode()


def containers(value: Any) -> list[Any]:
    found = []
    if isinstance(value, dict | list):
        found.append(value)
        for child in value.values() if isinstance(value, dict) else value[:20]:
            found += containers(child)
    return found
