"""Guard of a server: accepts only requests to its own host names, of limited size, that arrive within a time limit.

A page of another site can make a visitor's browser send requests here, but it cannot choose the `Host` header that the
browser sends: an unknown host name means that a foreign name points at this machine (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

MOST_BYTES = 256 * 1024  # per request; the longest text takes a few thousand
SLOWEST_BODY = 30.0  # seconds within which a request must arrive
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


class RefusedError(Exception):
    """The guard refuses a request: its body is larger or arrives more slowly than allowed."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def plain_text(status: int, reason: str) -> tuple[str, bytes]:
    """Media type and body of the guard's refusal as plain text."""
    return "text/plain; charset=utf-8", reason.encode()


class Guard:
    """The guard in front of an application (ASGI middleware): checks host, path, size and speed of requests."""

    def __init__(
        self,
        application: Application,
        bound: str,
        names: Iterable[str] = (),
        *,
        closed: tuple[str, ...] = (),
        most_bytes: int = MOST_BYTES,
        refusal: Callable[[int, str], tuple[str, bytes]] = plain_text,
    ) -> None:
        """
        Args:
            bound: the address that the server listens on.
            names: additional host names of the server.
            closed: path suffixes that are blocked.
            most_bytes: maximum size of a request body.
            refusal: media type and body of a response with this status and reason.
        """
        self.application = application
        self.closed, self.most_bytes, self.refusal = closed, most_bytes, refusal
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
            await self.refuse(scope, send, 421, "This server does not answer under that name.")
        elif scope["type"] == "http" and self.closed and scope["path"].rstrip("/").endswith(self.closed):
            await self.refuse(scope, send, 403, "Nothing can be uploaded here.")
        elif any(name == b"content-length" and self.too_large(value) for name, value in headers):
            await self.refuse(scope, send, 413, f"Requests may have at most {self.most_bytes} bytes.")
        else:
            await self.pass_on(scope, receive, send)

    def knows(self, host: str) -> bool:
        name = without_port(host).lower().rstrip(".")
        # If it listens on all addresses, any IP address may be its own; a name can be pointed here by anyone.
        return name in self.names or (self.everywhere and is_address(name))

    async def pass_on(self, scope: Message, receive: Receive, send: Send) -> None:
        received = 0
        arrived = answered = False
        end = time.monotonic() + SLOWEST_BODY

        async def limited() -> Message:
            nonlocal received, arrived
            if arrived:  # only a disconnect can follow
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(0.0, end - time.monotonic()))
            except asyncio.TimeoutError:
                raise RefusedError(408, f"The request did not arrive within {SLOWEST_BODY:g} seconds.") from None
            received += len(message.get("body", b""))
            arrived = not message.get("more_body", False)
            if received > self.most_bytes:
                raise RefusedError(413, f"Requests may have at most {self.most_bytes} bytes.")
            return message

        async def noted(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self.application(scope, limited if scope["type"] == "http" else receive, noted)
        except RefusedError as error:
            if not answered:
                await self.refuse(scope, send, error.status, error.reason)

    def too_large(self, length: bytes) -> bool:
        return not length.isdigit() or len(length) > 15 or int(length) > self.most_bytes

    async def refuse(self, scope: Message, send: Send, status: int, reason: str) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        kind, body = self.refusal(status, reason)
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
        # The unread rest of a body must not be parsed as the next request.
        headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def without_port(host: str) -> str:
    """The host name in a Host header, for the guard's checks."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_wildcard(address: str) -> bool:
    """Whether a server listens on all addresses, so that the guard cannot know its names."""
    return is_address(address) and ipaddress.ip_address(address).is_unspecified


def is_address(name: str) -> bool:
    """Whether a host name that the guard checks is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
