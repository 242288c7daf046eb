"""Names of a package that are imported when first asked for: torch takes seconds, which not every program needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attach(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Lazy imports: a `__getattr__` for `package`; `modules` maps each public name to the submodule that defines it."""

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return __getattr__
