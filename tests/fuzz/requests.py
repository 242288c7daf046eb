"""The page's HTTP interface: odd requests are answered, none with a server error of ours, and the next one works."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

from clock_attention.serve.guard import MOST_BYTES, Guard
from tests.fuzz.runner import DifferenceError, Fuzzer
from tests.fuzz.texts import a_text

HOSTS = ("127.0.0.1", "localhost:7860", "[::1]:1", "evil.example", "", ":", "[", "[::1", "127.0.0.1.evil", "\x00", "é")
PATHS = (
    "/",
    "/config",
    "/gradio_api/upload",
    "/gradio_api/upload/",
    "/gradio_api/queue/join",
    "/../etc/passwd",
    "//",
    "/a%00",
)
HEADERS = (b"content-length", b"host", b"content-type", b"transfer-encoding", b"x-forwarded-host", b"origin", b"cookie")


class Requests(Fuzzer):
    """The page itself behind its guard, called as a server calls it."""

    name = "requests"
    chunk = 2000

    def start(self, folder: Path) -> None:
        self.passed = 0

        async def page(scope: Any, receive: Any, send: Any) -> None:
            """Reads all there is, as the real page does, and answers."""
            size, more = 0, True
            while more:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)
            self.passed = size
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})

        self.guard = Guard(page, "127.0.0.1", closed=("/upload",))

    def case(self, chance: random.Random) -> str:
        host = chance.choice(HOSTS)
        headers = [(b"host", host.encode())] * chance.choice([1, 1, 1, 1, 0, 2])
        for _ in range(chance.randrange(4)):
            headers.append((chance.choice(HEADERS), chance.choice([b"", b"-1", b"9" * 40, chance.randbytes(8), b"12"])))
        chance.shuffle(headers)
        body = chance.choice(
            [b"", json.dumps({"data": [a_text(chance)]}).encode(), chance.randbytes(100), b"x" * 300_000]
        )
        pieces = [body[start : start + 65536] for start in range(0, len(body), 65536)] or [b""]
        messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces[:-1]]
        messages.append({"type": "http.request", "body": pieces[-1], "more_body": False})
        path = chance.choice(PATHS)
        scope = {"type": "http", "method": chance.choice(["GET", "POST", "PUT"]), "path": path, "headers": headers}
        sent: list[Any] = []
        self.passed = 0

        async def receive() -> Any:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(self.guard(scope, receive, send))
        status = sent[0]["status"]
        known = (
            host in ("127.0.0.1", "localhost:7860", "[::1]:1", "[::1") and [n for n, _ in headers].count(b"host") == 1
        )
        if status == 200 and (not known or "upload" in path or self.passed > MOST_BYTES):
            raise DifferenceError(f"let in: {scope}, {self.passed} bytes")
        if status not in (200, 403, 413, 421) or len(sent) != 2:
            raise DifferenceError(f"answered {sent}")
        return str(status)
