"""`clock-attention app`: the web page."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from clock_attention.app.page import LOOK, guarded, page
from clock_attention.app.speaker import MOST_CHARACTERS, Speaker
from clock_attention.speech.voice.voice import Voice
from clock_attention.speech.voice.voice_folder import shipped_voices


def app(
    voice: Annotated[
        str, typer.Option(help="Name or folder of the initial voice. Bundled voices can also be selected.")
    ] = "default",
    host: Annotated[str, typer.Option(help="0.0.0.0 allows connections from other machines.")] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(min=0, max=65535, help=r"\[default: first free from 7860]")] = None,
    vocoder: Annotated[str, typer.Option(help="As in `clock-attention speak`.")] = "auto",
    most_characters: Annotated[int, typer.Option(min=1, help="Longest text, in characters.")] = MOST_CHARACTERS,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Additional host name of the page, for example behind a proxy; repeatable.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = False,
) -> None:
    """Open a web page that speaks: pace, exact duration, timestamps, figures.

    By default, only this machine can reach it.
    """
    try:
        first, others = Voice.load(voice), shipped_voices()
        speaker = Speaker(first, others=others, vocoder=vocoder, most_characters=most_characters)
        with closing(speaker):
            # Loads and compiles everything, and reports problems with the vocoder, before the first visitor arrives.
            speaker.files(speaker.speak("Ready.", decoding=speaker.decodings()[0]))
            options = {**LOOK, **guarded(host, allow_host or [])}
            page(speaker).launch(server_port=port, inbrowser=browser, **options)
    except (ValueError, OSError, ImportError) as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        raise typer.Exit(1) from None
