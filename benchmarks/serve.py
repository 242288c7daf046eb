"""Many clients of one server on this machine: answers by status, first sound, and memory over time.

    python benchmarks/serve.py --clients 16 --seconds 300 --out results/serve.json

The server is a process of its own on the loopback interface. Every client sends its next request as soon as it has
its answer, or a moment later if it was turned away.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np

TEXTS = (
    "The birch canoe slid on the smooth planks.",
    "Glue the sheet to the dark blue background. It is easy to tell the depth of a well.",
    "These days a chicken leg is a rare dish. Rice is often served in round bowls. Lemons make fine punch.",
    "Yes.",
)
FORMATS = ("wav", "mp3", "opus", "flac", "pcm")


def memory(process: int) -> float:
    """Resident megabytes."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Clients:
    """Threads that send requests until the time is up."""

    def __init__(self, address: str, count: int, end: float) -> None:
        self.address, self.end = address, end
        self.statuses: Counter[str] = Counter()
        self.first: list[float] = []
        self.sound = 0
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.ask, args=(number,), daemon=True) for number in range(count)]

    def ask(self, number: int) -> None:
        chance = random.Random(number)
        with httpx.Client(timeout=180) as client:
            while time.monotonic() < self.end:
                body = {"input": chance.choice(TEXTS), "response_format": chance.choice(FORMATS)}
                body |= {"stream": chance.random() < 0.7}
                started = time.monotonic()
                try:
                    with client.stream("POST", f"{self.address}/audio/speech", json=body) as answer:
                        first, size = None, 0
                        for piece in answer.iter_raw():
                            first = first or time.monotonic() - started
                            size += len(piece)
                            if chance.random() < 0.01:  # some clients disconnect
                                break
                        status = str(answer.status_code)
                except httpx.HTTPError as error:
                    status, first, size = type(error).__name__, None, 0
                with self.lock:
                    self.statuses[status] += 1
                    if status == "200" and first is not None:
                        self.first.append(first)
                        self.sound += size
                if status == "429":
                    time.sleep(0.5 + chance.random())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--queue", type=int, default=8)
    parser.add_argument("--vocoder", default="auto")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    options = ["--port", "0", "--workers", str(arguments.workers), "--queue", str(arguments.queue)]
    server = subprocess.Popen(
        [sys.executable, "-m", "clock_attention.commands.main", "serve", *options, "--vocoder", arguments.vocoder],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    lines: list[str] = []
    address = ""
    for line in server.stderr:
        lines.append(line)
        if line.startswith("listening at"):
            address = line.split()[2]
            break
    threading.Thread(target=lambda: lines.extend(server.stderr or ()), daemon=True).start()
    started = time.monotonic()
    clients = Clients(address, arguments.clients, started + arguments.seconds)
    for thread in clients.threads:
        thread.start()
    seen: list[tuple[float, float]] = []
    while time.monotonic() < clients.end:
        time.sleep(min(5.0, max(0.1, clients.end - time.monotonic())))
        seen.append((round(time.monotonic() - started, 1), round(memory(server.pid), 1)))
    for thread in clients.threads:
        thread.join(200)
    counters = httpx.get(address.replace("/v1", "/metrics")).text
    spoken = next(float(line.split()[1]) for line in counters.splitlines() if line.startswith("clock_attention_speech"))
    server.send_signal(signal.SIGTERM)
    code = server.wait(60)
    table = {
        "command": "python " + " ".join(sys.argv),
        "clients": arguments.clients,
        "seconds": arguments.seconds,
        "workers": arguments.workers,
        "queue": arguments.queue,
        "vocoder": arguments.vocoder,
        "statuses": dict(sorted(clients.statuses.items())),
        "first_sound": [round(float(q), 2) for q in np.quantile(clients.first or [0.0], [0.5, 0.95])],
        "speech_seconds": round(spoken, 1),
        "memory": seen,
        "exit_code": code,
        "log": [line.strip() for line in lines if not line.startswith("listening")][:20],
        "load_average": os.getloadavg(),
    }
    print(json.dumps({**table, "memory": [seen[0], seen[len(seen) // 3], seen[-1]]}, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
