"""The server's HTTP interface: any body gets sound or an error in OpenAI's form, and never a server error."""

from __future__ import annotations

import asyncio
import json
import random
from html import escape
from pathlib import Path
from typing import Any

import httpx

from tests.fuzz.runner import DifferenceError, Fuzzer
from tests.fuzz.texts import a_text

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 0.5, 2, 1e308, -1e308, 10**30, "", "1", "wav", "sse", [], {}, [1], {"id": "tiny"}),
    *({"id": 1}, "tiny", "alloy", "\x00", "\ud800", "tts-1", "clock-attention", 0.001, 3.0),
    [{"label": "x", "start": 0.0, "end": 1.0}],
)
NAMES = (
    *("input", "model", "voice", "instructions", "response_format", "speed", "stream_format", "stream", "duration"),
    *("timestamps", "ssml", "timeline", "pitch", "energy", "seed", "", "\ud800", "__proto__"),
)
TIMES = ("1s", "-1s", "9e9s", "0", "200ms", "x")
FORMATS = ("wav", "flac", "mp3", "opus", "pcm")
KNOWN = {200, 400, 404, 413, 421, 429, 504}


class SpeechRequests(Fuzzer):
    """The guarded application, called as a server calls it, with a voice that babbles."""

    name = "speech_requests"
    chunk = 500

    def start(self, folder: Path) -> None:
        from clock_attention.serve.application import Desk
        from clock_attention.serve.engine import Engine
        from clock_attention.serve.limits import ServerLimits
        from clock_attention.serve.server import guarded_application
        from clock_attention.speech.vocoder.vocoder import GriffinLim
        from clock_attention.speech.voice.voice import Voice
        from tests.speech.voices import tiny_aligned_voice

        voice = Voice.load(tiny_aligned_voice(folder / "voice"))
        limits = ServerLimits(characters=300, seconds=30.0, deadline=60.0)
        desk = Desk({"tiny": voice}, GriffinLim(voice.language.mel, iterations=1), Engine(workers=1, limits=limits))
        self.engine = desk.engine
        self.application = guarded_application(desk, bound="127.0.0.1")

    def case(self, chance: random.Random) -> str:
        body: dict[str, Any] = {"input": a_text(chance), "response_format": chance.choice(FORMATS)}
        for _ in range(chance.choice([0, 0, 1, 1, 2, 4])):
            body[chance.choice(NAMES)] = chance.choice(VALUES)
        content = json.dumps(body).encode()
        if chance.random() < 0.2:
            marked = f'<speak>{escape(a_text(chance))}<break time="{chance.choice(TIMES)}"/>x</speak>'
            content = json.dumps({**body, "input": marked, "ssml": True}).encode()
        damage = chance.randrange(10)
        if damage == 0:
            content = content[: chance.randrange(len(content))]
        elif damage == 1:
            place = chance.randrange(len(content))
            content = content[:place] + chance.randbytes(3) + content[place:]
        elif damage == 2:
            content = chance.choice([b"", b"null", b"[]", b"[" * 50_000, b'"x"', b"1e999", b"NaN", b"x" * 300_000])
        status = asyncio.run(self.ask(content, chance.choice(["application/json"] * 5 + ["text/plain", "x", ""])))
        if self.engine.open_jobs:
            raise DifferenceError(f"{self.engine.open_jobs} jobs left open")
        return str(status)

    async def ask(self, content: bytes, kind: str) -> int:
        transport = httpx.ASGITransport(self.application)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answer = await client.post("/v1/audio/speech", content=content, headers={"content-type": kind})
            for _ in range(500):  # the worker lets go a moment after the answer
                if not self.engine.open_jobs:
                    break
                await asyncio.sleep(0.01)
        if answer.status_code not in KNOWN:
            raise DifferenceError(f"{answer.status_code} {answer.text[:200]}")
        if answer.status_code == 200:
            if not answer.content:
                raise DifferenceError("an answer without sound")
        elif set(answer.json()["error"]) != {"message", "type", "param", "code"}:
            raise DifferenceError(f"not an error in OpenAI's form: {answer.text[:200]}")
        return answer.status_code
