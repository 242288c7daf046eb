"""Output files of one spoken text, written sentence by sentence; memory holds only data for figure and timestamps."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from torch import Tensor

from clock_attention.files import check_ending, temporary_name
from clock_attention.speech.audio.sound_writing import SoundFile, SoundPipe, check_sound_path
from clock_attention.speech.text.timestamp_tiers import save_speech_timestamps
from clock_attention.speech.voice.speech import Speech, join
from clock_attention.timestamps import FORMATS, Interval


class MelFile:
    """The .npy file of a spoken text's mel (frames, bins), written incrementally and renamed when complete."""

    def __init__(self, path: Path, bins: int) -> None:
        self.path, self.bins, self.frames = path, bins, 0
        self._temporary = temporary_name(path)
        self._file = open(self._temporary, "wb")  # noqa: SIM115 (closed in __exit__)
        self._write_header()

    def _write_header(self) -> None:
        # NumPy leaves room in the header for the first dimension to grow.
        description = {"descr": "<f4", "fortran_order": False, "shape": (self.frames, self.bins)}
        np.lib.format.write_array_header_1_0(self._file, description)

    def write(self, mel: Tensor) -> None:
        self._file.write(mel.numpy().astype("<f4").tobytes())
        self.frames += len(mel)

    def __enter__(self) -> MelFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._file.seek(0)
            self._write_header()
            self._file.close()
            if kind is None:
                os.replace(self._temporary, self.path)
        finally:
            self._temporary.unlink(missing_ok=True)


class Outputs:
    """Writes the requested files of a spoken text from the pieces of a stream."""

    def __init__(
        self,
        sound: Path | BinaryIO,
        *,
        mel: Path | None = None,
        timestamps: Path | None = None,
        plot: Path | None = None,
    ) -> None:
        """Checks all paths before anything is spoken."""
        self.sound, self.mel, self.timestamps, self.plot = sound, mel, timestamps, plot
        self.frames = self.samples = self.phonemes = 0
        self.sample_rate = 1
        self._open = ExitStack()
        self._writers: list[tuple[Any, str]] = []  # a file and the attribute of the speech that goes into it
        self._tiers: dict[str, list[Interval]] = {}
        self._shown: list[Speech] = []
        self._shown_phonemes = 0
        if isinstance(sound, Path):
            check_sound_path(sound)
        if mel is not None:
            check_ending(mel, (".npy",))
        if timestamps is not None:
            check_ending(timestamps, FORMATS)
        if plot is not None:
            from clock_attention.speech.voice.speech_figure import check_figure_path

            check_figure_path(plot)

    @property
    def seconds(self) -> float:
        return self.samples / self.sample_rate

    def __enter__(self) -> Outputs:
        self._open.__enter__()
        return self

    def write(self, piece: Speech) -> None:
        """Write the next piece of a stream."""
        if not self._writers:
            self._begin(piece)
        for file, part in self._writers:
            file.write(getattr(piece, part))
        if self.timestamps is not None:
            for tier, intervals in piece.tiers().items():
                self._tiers.setdefault(tier, []).extend(interval.shifted(self.seconds) for interval in intervals)
        if self.plot is not None:
            self._keep_for_plot(piece)
        self.frames += len(piece.mel)
        self.samples += len(piece.audio)
        self.phonemes += len(piece.phonemes)

    def _begin(self, piece: Speech) -> None:
        """Open the files with the sample rate and mel bins of the first piece."""
        self.sample_rate = piece.sample_rate
        kind = SoundFile if isinstance(self.sound, Path) else SoundPipe
        sound = kind(self.sound, piece.sample_rate)  # type: ignore[arg-type]
        self._writers.append((self._open.enter_context(sound), "audio"))
        if self.mel is not None:
            self._writers.append((self._open.enter_context(MelFile(self.mel, piece.mel.shape[1])), "mel"))

    def _keep_for_plot(self, piece: Speech) -> None:
        from clock_attention.speech.voice.speech_figure import MOST_TOKENS

        if self._shown_phonemes <= MOST_TOKENS:
            self._shown.append(piece)
            self._shown_phonemes += len(piece.phonemes)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.__exit__(kind, error, at)
        if kind is not None or not self._writers:
            return
        if self.timestamps is not None:
            save_speech_timestamps(self.timestamps, self._tiers, self.seconds)
        if self.plot is not None:
            join(self._shown, " ".join(piece.text for piece in self._shown)).plot(self.plot)
