"""Who may talk to the page, and how much: only under the names it was bound to, without uploads, in small messages.

A page of another site can make a visitor's browser send requests here. It cannot choose the `Host` that the browser
sends with them: a name that is not ours means that somebody has pointed another name at this machine.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

MOST_BYTES = 256 * 1024  # of a request; the longest text takes a few thousand
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


class TooLargeError(Exception):
    """A request whose body is longer than allowed."""


class Guard:
    """ASGI middleware in front of the page."""

    def __init__(self, application: Application, bound: str, names: Iterable[str] = ()) -> None:
        """`bound` is the address that the server listens at; `names` are further names it is known by."""
        self.application = application
        self.everywhere = is_wildcard(bound)
        self.names = {bound.lower(), *(name.lower() for name in names)}
        if self.everywhere or bound.lower() in LOOPBACK:
            self.names |= LOOPBACK
        if self.everywhere:
            self.names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.application(scope, receive, send)
            return
        headers = [(name.lower(), value) for name, value in scope.get("headers", [])]
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not self.knows(hosts[0]):
            await refuse(scope, send, 421, "This server does not answer under that name.")
        elif scope["type"] == "http" and scope["path"].rstrip("/").endswith("/upload"):
            await refuse(scope, send, 403, "Nothing can be uploaded here.")
        elif any(name == b"content-length" and too_large(value) for name, value in headers):
            await refuse(scope, send, 413, f"Requests have at most {MOST_BYTES} bytes.")
        else:
            await self.pass_on(scope, receive, send)

    def knows(self, host: str) -> bool:
        name = without_port(host).lower().rstrip(".")
        # Wherever it listens everywhere, any address is one of its own; names can be pointed here by anybody.
        return name in self.names or (self.everywhere and is_address(name))

    async def pass_on(self, scope: Message, receive: Receive, send: Send) -> None:
        received = 0
        answered = False

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MOST_BYTES:
                raise TooLargeError
            return message

        async def noted(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self.application(scope, limited if scope["type"] == "http" else receive, noted)
        except TooLargeError:
            if not answered:
                await refuse(scope, send, 413, f"Requests have at most {MOST_BYTES} bytes.")


async def refuse(scope: Message, send: Send, status: int, reason: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    body = reason.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    # The rest of a body that nobody reads must not be taken for the next request.
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def too_large(length: bytes) -> bool:
    return not length.isdigit() or len(length) > 15 or int(length) > MOST_BYTES


def without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_wildcard(address: str) -> bool:
    return is_address(address) and ipaddress.ip_address(address).is_unspecified


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
