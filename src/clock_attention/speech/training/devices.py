"""Devices for a training run: CPU or GPU, number of processes, precision."""

from __future__ import annotations

import torch
from lightning_fabric import Fabric


def launched_fabric(
    accelerator: str = "auto", devices: int = 1, nodes: int = 1, precision: str | None = None
) -> Fabric:
    """Launch Fabric for training: on a GPU if available, in bf16 if supported, with DDP for several devices."""
    cuda = accelerator in ("cuda", "gpu") or (accelerator == "auto" and torch.cuda.is_available())
    fabric = Fabric(
        accelerator="cuda" if cuda else "cpu" if accelerator == "auto" else accelerator,
        devices=devices,
        num_nodes=nodes,
        strategy="ddp" if devices * nodes > 1 else "auto",
        precision=precision or ("bf16-mixed" if cuda and torch.cuda.is_bf16_supported() else "32-true"),  # type: ignore[arg-type]
    )
    fabric.launch()
    return fabric
