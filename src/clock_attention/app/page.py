"""The web page of `clock-attention app`: its tabs, buttons and launch options (Gradio)."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Read when gradio is imported: no telemetry, no lookups.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

import gradio as gr
from starlette.middleware import Middleware

from clock_attention.app.player import player
from clock_attention.app.speaker import MOST_SUBTITLES, Dubbed, Speaker, Step, Times
from clock_attention.app.subtitles import EXAMPLE, FILE_CHOICE, dubbed_player, progress
from clock_attention.serve.guard import Guard
from clock_attention.speech.dubbing.slot import Delivery
from clock_attention.speech.voice.pacing import FASTEST, SLOWEST

logger = logging.getLogger(__name__)

WAITING = 16  # requests in the queue; further ones are rejected
PACES = {"fast": 3.0, "natural": 6.0, "slow": 10.0}  # mel frames per phoneme, as in the paper's comparison
FIRST_TEXT = "The birch canoe slid on the smooth planks."
EXAMPLES: dict[str, list[Any]] = {
    "natural": [FIRST_TEXT, 1.0, ""],
    "slow": ["She said it slowly, so that nobody could miss a single word.", 0.6, ""],
    "exactly 5 seconds": ["This takes exactly five seconds, not a frame more and not a frame less.", 1.0, "5"],
    "fast": ["How quickly daft jumping zebras vex! Twenty-six letters, and all of them were used.", 1.6, ""],
}


@contextmanager
def errors_shown() -> Iterator[None]:
    """Show user errors and warnings on the web page; unexpected errors go to the terminal with a traceback."""

    class Shown(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            gr.Warning(capital(record.getMessage()))

    speech_logger, handler = logging.getLogger("clock_attention"), Shown(logging.WARNING)
    speech_logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
        for warning in caught:
            if issubclass(warning.category, UserWarning):
                gr.Warning(capital(str(warning.message)))
    except (ValueError, OSError, ImportError, MemoryError) as error:
        raise gr.Error(capital(str(error)), title="That did not work", print_exception=False) from None
    except Exception as error:
        logger.exception("a request failed")
        raise gr.Error("Something went wrong; see the terminal for details.", print_exception=False) from error
    finally:
        speech_logger.removeHandler(handler)


def capital(message: str) -> str:
    """Format an error message for the web page: on one line, starting with a capital letter."""
    message = " ".join(message.split())
    return message[:1].upper() + message[1:]


def guarded(host: str, names: Iterable[str] = ()) -> dict[str, Any]:
    """Options for the web page's `launch`: where it listens, and which requests it accepts."""
    guard = Middleware(Guard, bound=host, names=tuple(names), closed=("/upload",))
    return {"server_name": host, "share": False, "app_kwargs": {"middleware": [guard]}}


# One request at a time: running two at once would not serve the second visitor any sooner.
SHARED: dict[str, Any] = {"concurrency_limit": 1, "concurrency_id": "voice", "api_visibility": "private"}


def page(speaker: Speaker) -> gr.Blocks:
    """The web page (Gradio blocks). Give `LOOK` and `guarded(…)` to its `launch`.

    Its buttons call generators: between two steps gradio checks whether the visitor is still there, and cancels the
    work if not.
    """
    os.environ["GRADIO_TEMP_DIR"] = str(speaker.cache)  # read when components are created
    with gr.Blocks(title="Clock attention", analytics_enabled=False, delete_cache=(600, 3600)) as blocks:
        gr.Markdown(
            "# Clock attention\nTwo clocks run, one over the text and one over the speech; where they meet, a phoneme "
            "is spoken. Choose how long it takes."
        )
        voice, about = voice_choice(speaker)
        with gr.Tab("Speak"):
            decoding = speak_tab(speaker, voice)
        with gr.Tab("Compare paces"):
            compared = compare_tab(speaker, voice)
        with gr.Tab("Subtitles"):
            subtitles_tab(speaker, voice)

        def choose(name: str) -> tuple[Any, ...]:
            with errors_shown():
                return speaker.about(name), *(gr.Radio(**decodings_of(speaker, name)) for _ in range(2))

        voice.change(choose, voice, [about, decoding, compared], **SHARED)
    return blocks.queue(max_size=WAITING)


def voice_choice(speaker: Speaker) -> tuple[gr.Dropdown, gr.Markdown]:
    """The web page's voice menu, shared by all tabs, with information about the selected voice."""
    with gr.Row(equal_height=True, elem_classes="clock-voice"):
        voices = speaker.voices
        voice = gr.Dropdown(
            voices,
            value=voices[0],
            label="Voice",
            filterable=False,
            visible=len(voices) > 1,
            scale=1,
            min_width=160,
            elem_id="voice",
        )
        with gr.Column(scale=4, min_width=240):
            about = gr.Markdown(speaker.about(), elem_id="about")
    return voice, about


def speak_tab(speaker: Speaker, voice: gr.Dropdown) -> gr.Radio:
    """The tab of the web page that speaks a text, also with words dragged to new times; returns its decoding menu."""

    def speak(text: str, pace: float, duration: str, decoding: str, voice: str) -> Iterator[tuple[Any, ...]]:
        with errors_shown():
            steps = speaker.speak_in_steps(text, voice=voice, decoding=decoding, pace=pace, duration=duration)
            yield from shown(steps, voice, decoding)

    def speak_again(given: str) -> Iterator[tuple[Any, ...]]:
        with errors_shown():
            times = Times.of(given)
            yield from shown(speaker.speak_again_in_steps(times), times.voice, times.decoding)

    def shown(steps: Iterable[Step], voice: str, decoding: str) -> Iterator[tuple[Any, ...]]:
        label, plays = "Speech with its words and phonemes", "begins"
        for speech, complete in steps:
            again = (voice, decoding) if complete and speaker.adjustable(decoding, voice) else None
            # Plays while the rest is generated. Until then, the download buttons would offer files of an earlier text.
            yield player(speech, label, plays, again=again), gr.skip(), *downloads()
            plays = "continues"
        figure, *files = speaker.files(speech)
        yield gr.skip(), figure, *downloads(*files)

    with gr.Row(equal_height=False):
        with gr.Column(scale=3):
            text = gr.Textbox(FIRST_TEXT, label="Text", lines=4, max_length=speaker.most_characters, elem_id="text")
            examples = gr.Column()
        with gr.Column(scale=2):
            pace = gr.Slider(SLOWEST, FASTEST, 1.0, step=0.05, label="Pace", info="2 is twice as fast", elem_id="pace")
            with gr.Row(elem_classes="clock-length"):
                duration = gr.Textbox(
                    label="Exact duration",
                    info="seconds; replaces the pace",
                    placeholder="3.2",
                    max_length=12,
                    min_width=140,
                    elem_id="duration",
                )
                decoding = decoding_choice(speaker, "decoding")
    with examples:
        gr.Examples(list(EXAMPLES.values()), [text, pace, duration], example_labels=list(EXAMPLES))
    button = gr.Button("Speak", variant="primary", elem_id="speak")
    spoken = gr.HTML(elem_id="spoken", min_height=40)
    with gr.Row():
        sound = gr.DownloadButton("Sound (.wav)", interactive=False, elem_id="wav")
        timestamps = gr.DownloadButton("Timestamps (.TextGrid)", interactive=False, elem_id="textgrid")
    gr.Markdown("### Clocks, attention and mel")
    figure = picture("Clocks, attention and mel", "figure")
    # Hidden: edges.js clicks the button and supplies the dragged times.
    times, again = gr.Textbox(visible="hidden"), gr.Button(visible="hidden", elem_id="again")
    outputs = [spoken, figure, sound, timestamps]
    gr.on([button.click, duration.submit], speak, [text, pace, duration, decoding, voice], outputs, **SHARED)
    # "multiple": words dragged while the last figure is still being drawn are spoken afterwards instead of ignored.
    again.click(speak_again, times, outputs, js="() => window.clockTimes", trigger_mode="multiple", **SHARED)
    return decoding


def compare_tab(speaker: Speaker, voice: gr.Dropdown) -> gr.Radio:
    """The tab of the web page that speaks one text at several paces; returns its decoding menu."""

    def compare(text: str, decoding: str, voice: str) -> Iterator[tuple[Any, ...]]:
        with errors_shown():
            players: list[Any] = []
            for name, mpr in PACES.items():
                players.append("")
                for speech, _ in speaker.speak_in_steps(text, voice=voice, decoding=decoding, mpr=mpr):
                    players[-1] = player(speech, f"{name}, {mpr:g} frames per phoneme")
                    yield (*players, *(gr.skip(),) * (len(PACES) - len(players)))

    gr.Markdown(
        "The same sentence in 3, 6 and 10 mel frames per phoneme: about twice as fast as natural, natural, and "
        "slow. Nothing may be skipped, nothing repeated."
    )
    limit = speaker.most_characters
    with gr.Row(equal_height=True, elem_classes="clock-length"):
        same = gr.Textbox(FIRST_TEXT, label="Text", lines=2, max_length=limit, scale=4, elem_id="compared-text")
        compared = decoding_choice(speaker, "compared-decoding")
    button = gr.Button("Speak three times", variant="primary", elem_id="compare")
    players = []
    for name, mpr in PACES.items():
        gr.Markdown(f"### {name.capitalize()}: {mpr:g} frames per phoneme")
        players.append(gr.HTML(elem_id=f"player-{name}", min_height=40))
    button.click(compare, [same, compared, voice], players, **SHARED)
    return compared


def subtitles_tab(speaker: Speaker, voice: gr.Dropdown) -> None:
    """The tab of the web page that dubs subtitles."""

    def dub(subtitles: str, fastest: float, voice: str) -> Iterator[tuple[Any, ...]]:
        with errors_shown():
            for step in speaker.dub_in_steps(subtitles, fastest=fastest, voice=voice):
                if isinstance(step, Dubbed):
                    yield dubbed_player(step, fastest), step.picture, *downloads(step.sound, step.report)
                else:
                    yield progress(*step), None, *downloads()

    gr.Markdown("Every cue is spoken in exactly its slot: faster where there is much to say, slower where not.")
    with gr.Row(equal_height=False):
        with gr.Column(scale=3):
            subtitles = gr.Textbox(
                EXAMPLE,
                label="Subtitles (.srt or .vtt)",
                lines=12,
                max_lines=12,
                max_length=MOST_SUBTITLES,
                elem_id="subtitles",
                elem_classes="clock-subtitles",
            )
        with gr.Column(scale=2):
            gr.HTML(FILE_CHOICE, elem_id="subtitles-file")
            fastest = gr.Slider(
                1.0,
                2.5,
                Delivery().fastest,
                step=0.05,
                label="Fastest pace",
                info="Faster cues are reported, with how much to cut",
                elem_id="fastest",
            )
            button = gr.Button("Dub", variant="primary", elem_id="dub")
    dubbed = gr.HTML(elem_id="dubbed", min_height=40)
    with gr.Row():
        sound = gr.DownloadButton("Sound (.wav)", interactive=False, elem_id="dubbed-wav")
        report = gr.DownloadButton("Report (.json)", interactive=False, elem_id="dubbed-report")
    timeline = picture("Timeline", "timeline")
    load = gr.Button(visible="hidden", elem_id="subtitles-load")  # clicked by subtitles.js
    load.click(None, None, subtitles, js="() => window.clockSubtitles", api_visibility="private")
    button.click(dub, [subtitles, fastest, voice], [dubbed, timeline, sound, report], **SHARED)


def downloads(*files: str) -> Iterator[gr.DownloadButton]:
    """Updates for two download buttons of the web page: with these files, or disabled if there are none."""
    if not files:
        yield from (gr.DownloadButton(interactive=False),) * 2
    for path in files:
        yield gr.DownloadButton(value=path, interactive=True)


def picture(label: str, elem_id: str) -> gr.Image:
    """An image field of the web page, without the share button, which would upload the image."""
    return gr.Image(
        label=label,
        show_label=False,  # it would cover the picture
        type="filepath",
        interactive=False,
        buttons=["download", "fullscreen"],  # not "share", which would upload the picture
        elem_id=elem_id,
    )


def decoding_choice(speaker: Speaker, elem_id: str) -> gr.Radio:
    """The web page's menu for parallel or autoregressive decoding."""
    return gr.Radio(**decodings_of(speaker), label="Decoding", elem_id=elem_id)


def decodings_of(speaker: Speaker, voice: str = "") -> dict[str, Any]:
    """Options of the web page's decoding menu: the decoders of a voice, with the first one selected."""
    found = speaker.decodings(voice)
    info = "the only one of this voice" if len(found) == 1 else "autoregressive: ends by itself"
    return {"choices": found, "value": found[0], "info": info}


STATIC = Path(__file__).parent / "static"
SCRIPTS = "".join(f"<script>\n{path.read_text('utf-8')}</script>\n" for path in sorted(STATIC.glob("*.js")))
FONTS = ("ui-sans-serif", "system-ui", "sans-serif")
LOOK: dict[str, Any] = {
    # System fonts: some versions of gradio fetch named fonts from a font service.
    "theme": gr.themes.Soft(
        primary_hue="teal", neutral_hue="slate", font=FONTS, font_mono=("ui-monospace", "monospace")
    ),
    "css": ".gradio-container { max-width: 1180px !important; width: 100% !important; margin: 0 auto !important; }\n"
    + (STATIC / "page.css").read_text("utf-8"),
    "head": SCRIPTS,
    "footer_links": [],
}
