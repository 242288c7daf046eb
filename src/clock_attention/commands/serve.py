"""`clock-attention serve`: speech for other programs."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

import torch
import typer

from clock_attention.serve.application import Desk
from clock_attention.serve.engine import Engine
from clock_attention.serve.guard import LOOPBACK
from clock_attention.serve.limits import ServerLimits
from clock_attention.serve.server import Server, guarded_application
from clock_attention.serve.wyoming import wyoming_server
from clock_attention.speech.voice.voice import Voice

KEY = "CLOCK_ATTENTION_API_KEY"


def serve(
    voice: Annotated[
        list[str] | None,
        typer.Option(help=r"Name or folder of a voice; repeatable, the first is the default. \[default: default]"),
    ] = None,
    host: Annotated[str, typer.Option(help="0.0.0.0 allows connections from other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks any free port.")] = 8000,
    wyoming: Annotated[
        str | None, typer.Option(help="Also serve the Wyoming protocol at this address: tcp://127.0.0.1:10200.")
    ] = None,
    vocoder: Annotated[str, typer.Option(help="As in `clock-attention speak`.")] = "auto",
    workers: Annotated[int, typer.Option(min=1, max=64, help="Texts synthesized at the same time.")] = 2,
    threads: Annotated[
        int | None, typer.Option(min=1, help=r"CPU threads of each worker. \[default: cores / workers]")
    ] = None,
    queue: Annotated[int, typer.Option(min=0, help="Requests that may wait; any more get 429.")] = ServerLimits.waiting,
    deadline: Annotated[
        float, typer.Option(min=0.1, help="Seconds from a request to the end of its speech.")
    ] = ServerLimits.deadline,
    most_characters: Annotated[int, typer.Option(min=1, help="Longest text, in characters.")] = ServerLimits.characters,
    most_seconds: Annotated[float, typer.Option(min=0.1, help="Longest speech, in seconds.")] = ServerLimits.seconds,
    api_key_file: Annotated[
        Path | None, typer.Option(help=f"File with the API key that clients must send; or set {KEY}.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Additional host name of the server, for example behind a proxy; repeatable."),
    ] = None,
    patience: Annotated[float, typer.Option(min=0, help="Seconds to finish open responses after SIGTERM.")] = 30.0,
) -> None:
    """Serve speech over HTTP, compatible with OpenAI's API, and over the Wyoming protocol.

    By default, only this machine can reach it.
    """
    logging.basicConfig(format="%(levelname)s: %(message)s")
    try:
        key = api_key(api_key_file)
        if wyoming is not None:
            wyoming_server(wyoming)  # a wrong address is refused before anything is loaded
        limits = ServerLimits(
            characters=most_characters,
            seconds=most_seconds,
            body=body_limit(most_characters),
            waiting=queue,
            deadline=deadline,
        )
        torch.set_num_threads(threads or max(1, (os.cpu_count() or 1) // workers))
        voices = dict(chain.from_iterable(speaking(Path(name).name, Voice.load(name)) for name in voice or ["default"]))
        desk = Desk(voices, vocoder, Engine(workers=workers, limits=limits))
        desk.warm_up()
        application = guarded_application(
            desk, bound=host, names=allow_host or [], api_key=key, wyoming=wyoming, patience=patience
        )
        server = Server(application, host, port, connections=workers + queue, patience=patience)
        if key is None and host.lower() not in LOOPBACK:
            typer.secho(f"warning: anybody who reaches {host} can use this server: set {KEY}", fg="yellow", err=True)
        typer.echo(f"listening at {server.address}/v1" + (f" and {wyoming}" if wyoming else ""), err=True)
        server.run()
    except (ValueError, OSError, ImportError) as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        raise typer.Exit(1) from None


def speaking(name: str, voice: Voice) -> Iterator[tuple[str, Voice]]:
    """A voice of `serve` by its name and, if it has several speakers, each of them as NAME:SPEAKER."""
    yield name, voice
    for speaker in voice.speakers:
        yield f"{name}:{speaker}", voice.with_speaker(speaker)


def api_key(file: Path | None) -> str | None:
    """The API key that clients of `serve` must send, from a file, else from the environment."""
    try:
        key = os.environ.get(KEY) if file is None else file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: cannot be read ({error})") from None
    if file is not None and not key:
        raise ValueError(f"{file}: is empty, expected an API key")
    return key or None


def body_limit(characters: int) -> int:
    """Largest request to `serve` in bytes: a text of this many characters, all of them escaped, and its options."""
    return max(ServerLimits.body, 12 * characters + 16 * 1024)
