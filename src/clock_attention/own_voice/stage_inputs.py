"""Inputs of the stages of creating a voice: what identifies recordings and the voice that training begins with."""

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
    """Inputs of gathering: everything that the clips depend on, and nothing else."""
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
    """Input of what is done with the clips: their table and their sound, and no other file that lies there."""
    files = [folder / "metadata.csv", *sorted(folder.glob("wavs/[!.]*"))]
    return digest_of(*(path for path in files if path.is_file()))


def start_digest(start: Start) -> str:
    """Input of the training: what identifies the voice that it begins with."""
    weights = hashlib.sha256()
    for name, tensor in sorted(start.weights.items()):
        weights.update(name.encode() + tensor.detach().float().contiguous().numpy().tobytes())
    return digest([start.name, start.language.model_dump(), weights.hexdigest()])


def needs_transcript(source: Source) -> bool:
    """While creating a voice: whether a recognizer has to write the text of a recording."""
    return source.text is None and not source.fault


def may_be_cut(source: Source) -> bool:
    """Input of gathering: whether a recording may be long, and its text says where to cut it."""
    foreign = Path(source.path).suffix.lower() in FOREIGN  # of unknown length
    return source.text is not None and (foreign or length_of(source.path) > LONGEST_CLIP)


def file_state(path: str) -> list[int]:
    """Input of gathering: size and time of a file, by which changes are noticed."""
    state = Path(path).stat()
    return [state.st_size, state.st_mtime_ns]
