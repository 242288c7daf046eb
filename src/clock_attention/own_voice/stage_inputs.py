"""Inputs of the stages of creating a voice: what identifies the recordings and the voice that training starts from."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clock_attention.own_voice.gather import LONGEST_CLIP, length_of
from clock_attention.own_voice.stages import digest, digest_of
from clock_attention.speech.audio.sound_reading import FOREIGN
from clock_attention.speech.corpus.sources import Source
from clock_attention.speech.corpus.store import Rejection
from clock_attention.speech.training.transfer import Start


def gathering_inputs(
    sources: Sequence[Source], rejected: Sequence[Rejection], start: Start, recognizer: str, aligner: str
) -> dict[str, Any]:
    """Inputs of the gathering stage: everything that the clips depend on, and nothing else."""
    foreign = any(Path(source.path).suffix.lower() in FOREIGN for source in sources)
    return {
        "sources": [[source.id, source.text, source.fault, *file_state(source.path)] for source in sources],
        "rejected": [asdict(row) for row in rejected],
        "mel": start.language.mel.model_dump(),
        "recognizer": recognizer if any(map(needs_transcript, sources)) else None,
        "aligner": aligner if any(map(may_be_cut, sources)) else None,
        "ffmpeg": foreign and shutil.which("ffmpeg") is not None,
    }


def clips_digest(folder: Path) -> str:
    """Input of the stages that use the clips: digest of their table and audio, ignoring other files in the folder."""
    files = [folder / "metadata.csv", *sorted(folder.glob("wavs/[!.]*"))]
    return digest_of(*(path for path in files if path.is_file()))


def start_digest(start: Start) -> str:
    """Input of the training stage: digest of the voice that training starts from."""
    weights = hashlib.sha256()
    for name, tensor in sorted(start.weights.items()):
        weights.update(name.encode() + tensor.detach().float().contiguous().numpy().tobytes())
    return digest([start.name, start.language.model_dump(), weights.hexdigest()])


def needs_transcript(source: Source) -> bool:
    """Input of the gathering stage: whether a recording has to be transcribed by a recognizer."""
    return source.text is None and not source.fault


def may_be_cut(source: Source) -> bool:
    """Input of the gathering stage: whether a recording may have to be cut between the words of its text."""
    foreign = Path(source.path).suffix.lower() in FOREIGN  # of unknown length
    return source.text is not None and (foreign or length_of(source.path) > LONGEST_CLIP)


def file_state(path: str) -> list[int]:
    """Input of the gathering stage: size and modification time of a file, to notice changes."""
    state = Path(path).stat()
    return [state.st_size, state.st_mtime_ns]
