"""Keys and fingerprints: a short hash of anything that JSON can write."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest(*parts: Any) -> str:
    """A short hash of anything that JSON can write; dictionaries in any order. For keys and fingerprints."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
