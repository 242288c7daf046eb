"""Who may talk to a server, and how much. `tests/app/test_guard.py` has the same with a real page behind it."""

import asyncio

import pytest

from clock_attention.serve import guard
from clock_attention.serve.guard import Guard, is_wildcard, without_port


def ask(headers=((b"host", b"localhost:8000"),), chunks=(b"",), path="/", kind="http", **options):
    """Status of the answer, body, and what the application has read."""
    read, sent = [], []
    waiting = [
        {"type": "http.request", "body": chunk, "more_body": place < len(chunks) - 1}
        for place, chunk in enumerate(chunks)
    ]

    async def application(scope, receive, send):
        while True:
            message = await receive()
            read.append(message["body"])
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive():
        if not waiting:
            await asyncio.sleep(60)
        return waiting.pop(0)

    async def send(message):
        sent.append(message)

    options.setdefault("bound", "127.0.0.1")
    scope = {"type": kind, "headers": list(headers), "path": path}
    asyncio.run(Guard(application, **options)(scope, receive, send))
    return sent, read


@pytest.mark.parametrize(
    ("bound", "host", "status"),
    [
        ("127.0.0.1", b"localhost", 200),
        ("127.0.0.1", b"LOCALHOST.:80", 200),
        ("127.0.0.1", b"evil.example", 421),
        ("127.0.0.1", b"10.0.0.7", 421),
        ("0.0.0.0", b"10.0.0.7:8000", 200),
        ("0.0.0.0", b"evil.example", 421),
        ("::", b"[::1]:8000", 200),
    ],
)
def test_only_its_own_names_are_answered(bound, host, status):
    assert ask([(b"Host", host)], bound=bound)[0][0]["status"] == status


def test_requests_without_a_host_or_with_two_are_refused():
    assert ask([])[0][0]["status"] == 421
    assert ask([(b"host", b"localhost"), (b"host", b"localhost")])[0][0]["status"] == 421


@pytest.mark.parametrize("length", [b"101", b"-1", b"1e3", b"9" * 20])
def test_declared_lengths_are_believed_when_they_are_too_large(length):
    sent, read = ask([(b"host", b"localhost"), (b"content-length", length)], most_bytes=100)
    assert sent[0]["status"] == 413
    assert (b"connection", b"close") in sent[0]["headers"]
    assert not read


def test_bodies_are_counted_while_they_arrive():
    sent, read = ask(chunks=[b"x" * 60, b"x" * 60, b"x"], most_bytes=100)
    assert sent[0]["status"] == 413
    assert len(read) == 1


def test_slow_bodies_are_given_up(monkeypatch):
    monkeypatch.setattr(guard, "SLOWEST_BODY", 0.05)
    sent, read = ask(chunks=())
    assert sent[0]["status"] == 408
    assert not read


def test_closed_paths_and_other_sites_sockets_are_refused():
    assert ask(path="/gradio_api/upload/", closed=("/upload",))[0][0]["status"] == 403
    assert ask([(b"host", b"evil.example")], kind="websocket")[0] == [{"type": "websocket.close", "code": 1008}]


def test_addresses():
    assert [without_port(host) for host in ("a:1", "a", "[::1]:2", "[::1]")] == ["a", "a", "::1", "::1"]
    assert [is_wildcard(host) for host in ("0.0.0.0", "::", "127.0.0.1", "localhost")] == [True, True, False, False]
