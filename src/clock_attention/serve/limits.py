"""Limits of a server: size of a request, number of requests in progress."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerLimits:
    """Limits of a server: length of texts, of speech and of the queue; the error message names the limit exceeded."""

    characters: int = 4096  # per text, as in OpenAI's interface
    seconds: float = 600.0  # of speech in one response
    body: int = 256 * 1024  # bytes per request
    waiting: int = 16  # requests that wait for a worker; further ones are rejected
    deadline: float = 120.0  # seconds from a request to the end of its speech

    def __post_init__(self) -> None:
        for name, least in (("characters", 1), ("seconds", 0.1), ("body", 1024), ("waiting", 0), ("deadline", 0.1)):
            if not getattr(self, name) >= least:
                raise ValueError(f"{name}: got {getattr(self, name)}, expected at least {least:g}")

    def check_text(self, text: str) -> None:
        if len(text) > self.characters:
            raise ValueError(f"the text has {len(text):,} characters; this server takes {self.characters:,} at a time")
