"""Sockets, and answers that are counted."""

import asyncio
import socket

import pytest

pytest.importorskip("fastapi", reason="needs the extra clock-attention[serve]")

from clock_attention.serve.metrics import Metrics
from clock_attention.serve.server import Counted, Server, listening


def test_a_port_that_is_taken_is_an_error_that_says_so():
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}: cannot listen there .* choose another port"):
            listening("127.0.0.1", port)


def test_addresses_can_be_opened_in_a_browser():
    server = Server(None, "127.0.0.1", 0, connections=1)
    with server.socket:
        assert server.address == f"http://127.0.0.1:{server.socket.getsockname()[1]}"
    if socket.has_ipv6:
        six = Server(None, "::1", 0, connections=1)
        with six.socket:
            assert six.address.startswith("http://[::1]:")


def call(application, metrics):
    async def send(message):
        pass

    asyncio.run(Counted(application, metrics)({"type": "http"}, None, send))


def test_answers_are_counted_and_broken_ones_do_not_end_the_server(caplog):
    metrics = Metrics()

    async def whole(scope, receive, send):
        await send({"type": "http.response.start", "status": 404})

    async def broken(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        raise ConnectionError("gone")

    async def failing(scope, receive, send):
        raise RuntimeError("before any answer")

    call(whole, metrics)
    call(broken, metrics)
    assert "a response broke off: gone" in caplog.text
    with pytest.raises(RuntimeError):
        call(failing, metrics)
    text = metrics.text().decode()
    for status in ("404", "broken", "none"):
        assert f'status="{status}"}} 1.0' in text
