"""Import paths of earlier versions. They work until 1.0, with a warning that names the new path; see the policy."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from warnings import warn

# Documented in 0.1.0: old path → modules that now define its names.
MOVED = {
    "clock_attention.evaluation.chain": ("clock_attention.evaluation.pipeline.chain",),
    "clock_attention.evaluation.session": ("clock_attention.evaluation.pipeline.session",),
    "clock_attention.speech.config": ("clock_attention.speech.training.config",),
    "clock_attention.speech.onnx_export": ("clock_attention.speech.voice.onnx_export",),
    "clock_attention.speech.phonemes": (
        "clock_attention.speech.text.phonemizers",
        "clock_attention.speech.text.phonemes",
        "clock_attention.speech.text.hibari",
    ),
    "clock_attention.speech.store": ("clock_attention.speech.corpus.store",),
}


class MovedModules(MetaPathFinder, Loader):
    """Import finder for the old paths of moved modules, used after every other finder has failed."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        module.__doc__ = f"Moved to {', '.join(MOVED[old])}; this path works until 1.0."

        def __getattr__(name: str) -> Any:
            if not name.startswith("__"):
                for path in MOVED[old]:
                    found = import_module(path)
                    if hasattr(found, name):
                        warn(f"{old} has moved: import {name} from {path}", DeprecationWarning, stacklevel=2)
                        return getattr(found, name)
            raise AttributeError(f"module {old!r} has no attribute {name!r}")

        module.__getattr__ = __getattr__  # type: ignore[method-assign]


def install_old_paths() -> None:
    """Make the old paths of moved modules importable."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
