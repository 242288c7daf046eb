"""Names of a package that are imported when first asked for: torch takes seconds, which not every program needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any
from warnings import warn


def attach(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for `package`: `modules` maps each public name to the submodule that defines it."""

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return __getattr__


def moved(old: str, *modules: str) -> Callable[[str], Any]:
    """A `__getattr__` for a module whose contents have moved to `modules`: every name still works, with a warning."""

    def __getattr__(name: str) -> Any:
        if not name.startswith("__"):
            for path in modules:
                module = import_module(path)
                if hasattr(module, name):
                    warn(f"{old} has moved: import {name} from {path}", DeprecationWarning, stacklevel=2)
                    return getattr(module, name)
        raise AttributeError(f"module {old!r} has no attribute {name!r}")

    return __getattr__
