"""Start and stop the server's interfaces: HTTP (uvicorn) and Wyoming, with one engine for both."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI

from clock_attention.serve.application import Desk, http_application
from clock_attention.serve.errors import refusal_body
from clock_attention.serve.guard import Guard, Message, Receive, Send
from clock_attention.serve.metrics import Metrics
from clock_attention.serve.wyoming import Handler, wyoming_server

logger = logging.getLogger(__name__)

IDLE_CONNECTIONS = 256  # in addition to those with requests in progress
KEEP_ALIVE = 15  # seconds


class Counted:
    """ASGI middleware of the server that counts responses by status, and logs streams that break off."""

    def __init__(self, application: Any, metrics: Metrics) -> None:
        self.application, self.metrics = application, metrics

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        status: str | None = None

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self.application(scope, receive, counted)
        except Exception as error:
            if status is None:
                raise
            logger.warning("a response broke off: %s", error or type(error).__name__)
            status = "broken"
        finally:
            self.metrics.requests.labels("http", status or "none").inc()


def guarded_application(
    desk: Desk,
    *,
    bound: str,
    names: Iterable[str] = (),
    api_key: str | None = None,
    wyoming: str | None = None,
    patience: float = 30.0,
) -> Any:
    """The HTTP application behind its guard; the Wyoming server starts and stops with it."""

    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[None]:
        beside = None
        if wyoming is not None:
            beside = wyoming_server(wyoming)
            await beside.start(partial(Handler, desk=desk))
        try:
            yield
        finally:
            if beside is not None:
                with suppress(Exception):
                    await beside.stop()
            await asyncio.to_thread(desk.engine.close, patience)

    application = http_application(desk, api_key=api_key, lifespan=lifespan)
    guard = Guard(application, bound, names, most_bytes=desk.engine.limits.body, refusal=refusal_body)
    return Counted(guard, desk.engine.metrics)


def listening(host: str, port: int) -> socket.socket:
    """Open the socket that the server listens on; if that fails, the error says why."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise OSError(f"{host}:{port}: cannot listen there ({error.strerror or error}); choose another port") from None


class Server:
    """A server with its socket. `run` returns after SIGTERM or SIGINT, once pending responses have been sent."""

    def __init__(self, application: Any, host: str, port: int, *, connections: int, patience: float = 30.0) -> None:
        self.socket = listening(host, port)
        self._uvicorn = uvicorn.Server(
            uvicorn.Config(
                application,
                log_level="warning",
                access_log=False,
                server_header=False,
                lifespan="on",
                limit_concurrency=connections + IDLE_CONNECTIONS,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=max(1, round(patience)),
            )
        )

    @property
    def address(self) -> str:
        host, port = self.socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def started(self) -> bool:
        return self._uvicorn.started

    def run(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: None)  # uvicorn re-raises them after handling them
        self._uvicorn.run(sockets=[self.socket])
        if not self._uvicorn.started:
            raise OSError("the server could not start; the lines above say why")

    def stop(self) -> None:
        self._uvicorn.should_exit = True
