"""`clock-attention app`: a web page that speaks, at any pace or exact duration, and shows when each phoneme is said."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Read when gradio is imported: nothing is reported to anybody, nothing is looked up.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

import gradio as gr
from starlette.middleware import Middleware

from clock_attention.app.player import CSS, SCRIPT, player
from clock_attention.files import temporary_folder
from clock_attention.serve.guard import Guard
from clock_attention.speech.voice.folder import VoiceError
from clock_attention.speech.voice.pacing import FASTEST, SLOWEST
from clock_attention.speech.voice.speech import Speech, join
from clock_attention.speech.voice.voice import AUTOREGRESSIVE, Voice

logger = logging.getLogger(__name__)

MOST_CHARACTERS = 600  # about 40 seconds of speech
LONGEST = 120.0  # seconds of speech
LONGEST_WORK = 120.0  # seconds that a request may take
WAITING = 16  # requests in the queue; further ones are turned away
KEPT = 24  # spoken texts whose files can still be downloaded
PACES = {"fast": 3.0, "natural": 6.0, "slow": 10.0}  # mel frames per phoneme, as in the paper's comparison
FIRST_TEXT = "The birch canoe slid on the smooth planks."
EXAMPLES: dict[str, list[Any]] = {
    "natural": [FIRST_TEXT, 1.0, ""],
    "slow": ["She said it slowly, so that nobody could miss a single word.", 0.6, ""],
    "exactly 5 seconds": ["This takes exactly five seconds, not a frame more and not a frame less.", 1.0, "5"],
    "fast": ["How quickly daft jumping zebras vex! Twenty-six letters, and all of them were used.", 1.6, ""],
}


class Speaker:
    """Serves the page: checks requests, speaks, keeps the files of the most recent ones."""

    def __init__(self, voice: Voice, *, vocoder: str = "auto", most_characters: int = MOST_CHARACTERS) -> None:
        self.vocoder = vocoder
        self.most_characters = most_characters
        self.voices: dict[str, Voice] = {voice.card.model.decoding: voice}
        if AUTOREGRESSIVE not in self.voices:
            try:
                self.voices[AUTOREGRESSIVE] = voice.with_decoding(AUTOREGRESSIVE)
            except VoiceError:
                logger.info("%s has no autoregressive decoder", voice.path)
        self._root = temporary_folder("app")
        self._folders: deque[Path] = deque()

    @property
    def licence(self) -> str:
        return next(iter(self.voices.values())).card.provenance.licence

    @property
    def decodings(self) -> list[str]:
        return list(self.voices)

    @property
    def cache(self) -> Path:
        """Where the page keeps its copies of what visitors may download; goes with the rest."""
        return self._root / "page"

    def close(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def speak(self, text: str, **options: Any) -> Speech:
        """One text within the limits of the page, with the options of `speak_in_steps`."""
        *_, speech = self.speak_in_steps(text, **options)
        return speech

    def speak_in_steps(
        self, text: str, *, decoding: str, pace: float = 1.0, duration: str = "", mpr: float | None = None
    ) -> Iterator[Speech]:
        """All that has been spoken, after each sentence: it can be heard, and whoever waits no longer can leave.

        A duration, where there is one, replaces the pace.
        """
        if len(text) > self.most_characters:
            raise ValueError(
                f"This text has {len(text):,} characters; the page takes {self.most_characters:,} at a time. "
                "`clock-attention speak` reads texts of any length."
            )
        if decoding not in self.voices:
            raise ValueError(f"This voice has no {decoding} decoder.")
        length: dict[str, Any] = {"pace": pace}
        if mpr is not None:
            length = {"mpr": mpr}
        elif duration.strip():
            length = {"duration": within_limit(duration)}
        pieces: list[Speech] = []
        end = time.monotonic() + LONGEST_WORK
        for piece in self.voices[decoding].stream(text, vocoder=self.vocoder, most_seconds=LONGEST, **length):
            pieces.append(piece)
            if time.monotonic() > end:
                raise ValueError(f"This text takes more than {LONGEST_WORK:g} seconds of work: give a shorter one.")
            yield join(pieces, text)

    def files(self, speech: Speech) -> tuple[str, str, str]:
        """Figure, sound and timestamps of a speech; those of older ones disappear."""
        folder = Path(tempfile.mkdtemp(dir=self._root))
        self._folders.append(folder)
        while len(self._folders) > KEPT:
            shutil.rmtree(self._folders.popleft(), ignore_errors=True)
        figure, sound, timestamps = (folder / name for name in ("speech.png", "speech.wav", "speech.TextGrid"))
        speech.plot(figure)
        speech.save(sound)
        speech.save_timestamps(timestamps)
        return str(figure), str(sound), str(timestamps)


def within_limit(duration: str) -> float:
    from clock_attention.speech.voice.pacing import parse_duration

    seconds = parse_duration(duration.strip())
    if seconds > LONGEST:
        raise ValueError(f"duration: got {seconds:g} s; the page speaks for {LONGEST:g} s at most")
    return seconds


@contextmanager
def sentences() -> Iterator[None]:
    """User errors and warnings are shown on the page; unexpected errors go to the terminal with a traceback."""

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
        raise gr.Error("Something went wrong; the terminal says what.", print_exception=False) from error
    finally:
        speech_logger.removeHandler(handler)


def capital(message: str) -> str:
    message = " ".join(message.split())
    return message[:1].upper() + message[1:]


def guarded(host: str, names: Iterable[str] = ()) -> dict[str, Any]:
    """Options for the page's `launch`: where it listens, and who is let in."""
    guard = Middleware(Guard, bound=host, names=tuple(names), closed=("/upload",))
    return {"server_name": host, "share": False, "app_kwargs": {"middleware": [guard]}}


def page(speaker: Speaker) -> gr.Blocks:
    """The page. Give `LOOK` and `guarded(…)` to its `launch`."""
    os.environ["GRADIO_TEMP_DIR"] = str(speaker.cache)  # read when components are made

    # Generators: between two steps gradio looks whether the visitor is still there, and ends what nobody waits for.
    def speak(text: str, pace: float, duration: str, decoding: str) -> Iterator[tuple[Any, ...]]:
        with sentences():
            label, plays = "Speech with its words and phonemes", "begins"
            for speech in speaker.speak_in_steps(text, decoding=decoding, pace=pace, duration=duration):
                former = (gr.DownloadButton(interactive=False),) * 2  # are of another text
                yield player(speech, label, plays), gr.skip(), *former  # heard while the rest is made
                plays = "continues"
            figure, sound, timestamps = speaker.files(speech)
            downloads = (gr.DownloadButton(value=path, interactive=True) for path in (sound, timestamps))
            yield gr.skip(), figure, *downloads

    def compare(text: str, decoding: str) -> Iterator[tuple[Any, ...]]:
        with sentences():
            players: list[Any] = []
            for name, mpr in PACES.items():
                players.append("")
                for speech in speaker.speak_in_steps(text, decoding=decoding, mpr=mpr):
                    players[-1] = player(speech, f"{name}, {mpr:g} frames per phoneme")
                    yield (*players, *(gr.skip(),) * (len(PACES) - len(players)))

    limit = speaker.most_characters
    with gr.Blocks(title="Clock attention", analytics_enabled=False, delete_cache=(600, 3600)) as blocks:
        gr.Markdown(
            "# Clock attention\nTwo clocks run, one over the text and one over the speech; where they meet, a phoneme "
            f"is said. Choose how long it takes.\n\nThe voice: {speaker.licence}."
        )
        with gr.Tab("Speak"):
            with gr.Row(equal_height=False):
                with gr.Column(scale=3):
                    text = gr.Textbox(FIRST_TEXT, label="Text", lines=4, max_length=limit, elem_id="text")
                    examples = gr.Column()
                with gr.Column(scale=2):
                    pace = gr.Slider(
                        SLOWEST, FASTEST, 1.0, step=0.05, label="Pace", info="2 is twice as fast", elem_id="pace"
                    )
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
            figure = gr.Image(
                label="Clocks, attention and mel",
                show_label=False,  # it would lie over the figure's own title
                type="filepath",
                interactive=False,
                buttons=["download", "fullscreen"],  # not "share", which would send it away
                elem_id="figure",
            )
        with gr.Tab("Compare paces"):
            gr.Markdown(
                "The same sentence in 3, 6 and 10 mel frames per phoneme: about twice as fast as natural, natural, and "
                "slow. Nothing may be skipped, nothing repeated."
            )
            with gr.Row(equal_height=True):
                same = gr.Textbox(FIRST_TEXT, label="Text", lines=2, max_length=limit, scale=4, elem_id="compared-text")
                compared = decoding_choice(speaker, "compared-decoding")
            compare_button = gr.Button("Speak three times", variant="primary", elem_id="compare")
            players = []
            for name, mpr in PACES.items():
                gr.Markdown(f"### {name.capitalize()}: {mpr:g} frames per phoneme")
                players.append(gr.HTML(elem_id=f"player-{name}", min_height=40))
        # One at a time: a second visitor's speech would come no sooner if both ran at once.
        shared: dict[str, Any] = {"concurrency_limit": 1, "concurrency_id": "voice", "api_visibility": "private"}
        inputs, outputs = [text, pace, duration, decoding], [spoken, figure, sound, timestamps]
        gr.on([button.click, duration.submit], speak, inputs, outputs, **shared)
        compare_button.click(compare, [same, compared], players, **shared)
    return blocks.queue(max_size=WAITING)


def decoding_choice(speaker: Speaker, elem_id: str) -> gr.Radio:
    alone = len(speaker.decodings) == 1
    info = "the only one of this voice" if alone else "autoregressive: ends by itself"
    return gr.Radio(speaker.decodings, value=speaker.decodings[0], label="Decoding", info=info, elem_id=elem_id)


FONTS = ("ui-sans-serif", "system-ui", "sans-serif")
LOOK: dict[str, Any] = {
    # System fonts: a named one would be fetched from a font service by some versions of gradio.
    "theme": gr.themes.Soft(
        primary_hue="teal", neutral_hue="slate", font=FONTS, font_mono=("ui-monospace", "monospace")
    ),
    "css": ".gradio-container { max-width: 1180px !important; width: 100% !important; margin: 0 auto !important; }"
    + CSS,
    "head": SCRIPT,
    "footer_links": [],
}
