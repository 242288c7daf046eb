"""Lazy imports of a package's names: importing torch takes seconds, and not every program needs it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attach(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for lazy imports of `package`; `modules` maps each public name to the submodule defining it."""

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return __getattr__
