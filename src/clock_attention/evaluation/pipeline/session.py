"""State shared by the evaluations of one command: vocoder and recognizers, the cache, the ranks, the progress bar."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console

from clock_attention.evaluation.pipeline.cache import Cache, require_folder
from clock_attention.evaluation.pipeline.chain import ChainSource, ChainWorkers
from clock_attention.evaluation.pipeline.evaluate import Evaluation, evaluate
from clock_attention.evaluation.pipeline.progress import Watch
from clock_attention.evaluation.prompts import Prompt
from clock_attention.evaluation.systems.systems import System
from clock_attention.speech.audio.mel import MelConfig


class Session:
    """An evaluation session, a context manager. Each rank does its share; the first rank returns all results."""

    def __init__(
        self,
        source: ChainSource,
        out: Path,
        *,
        workers: int = 1,
        keep_audio: bool = False,
        devices: int = 1,
        nodes: int = 1,
        seed: int = 0,
        console: Console | None = None,
    ) -> None:
        require_folder(out)
        self.fabric = launched(devices, nodes)
        self.rank: int = self.fabric.global_rank if self.fabric else 0
        self.world = devices * nodes
        self.out = out
        self.seed = seed
        self.audio = out / "audio" if keep_audio else None
        self.chains = ChainWorkers(source, workers)
        self.cache = Cache(out / "cache", self.rank)
        self.console = console or Console(quiet=True)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.chains.__exit__(kind, error, trace)

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def evaluate(self, system: System, prompts: Sequence[Prompt]) -> Evaluation | None:
        """Evaluate a system on prompts; returns None on all ranks but the first."""
        mine = len(prompts[self.rank :: self.world])
        with Watch(self.console, mine, f"{system.name}, {system.length}", quiet=not self.leads) as watch:
            found = self._evaluate(system, prompts, rank=self.rank, world=self.world, report=watch.advance)
        if self.fabric:
            self.fabric.barrier()
            self.cache.reload()
            found = self._evaluate(system, prompts) if self.leads else None
        return found

    def _evaluate(self, system: System, prompts: Sequence[Prompt], **options: Any) -> Evaluation | None:
        return evaluate(system, prompts, self.chains, self.cache, audio=self.audio, seed=self.seed, **options)


def launched(devices: int, nodes: int) -> Any:
    """Launch the processes of a session with Fabric; None if one process is enough."""
    if devices * nodes == 1:
        return None
    from lightning_fabric import Fabric
    from lightning_fabric.strategies import DDPStrategy

    # Ranks wait for each other after every system; torch's default of half an hour is too short for the slowest.
    strategy = DDPStrategy(timeout=timedelta(days=7))
    fabric = Fabric(accelerator="cpu", devices=devices, num_nodes=nodes, strategy=strategy)
    fabric.launch()
    return fabric


def shared_mel(systems: Sequence[System]) -> MelConfig:
    """The mel definition that all systems of a session must have in common, since they share one vocoder."""
    first = systems[0].mel
    for other in systems[1:]:
        if other.mel != first:
            raise ValueError(
                f"{systems[0].name} and {other.name} have different mel definitions and need different vocoders: "
                "evaluate them one by one"
            )
    return first
