"""Keys and fingerprints: a short hash of any JSON-serializable value."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest(*parts: Any) -> str:
    """Short hash of JSON-serializable values, for keys and fingerprints; dictionary order does not matter."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
