"""Packages that only some evaluations need: imported on first use; a missing one is an error that names its extra."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def needs(module: str, *, extra: str) -> Any:
    """Import an optional package, or say which extra brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name and module.split(".")[0] != error.name.split(".")[0]:
            raise  # the package is there, something that it needs is not: its own message is the better one
        raise ModuleNotFoundError(
            f"{module.split('.')[0]} is not installed: `pip install 'clock-attention[{extra}]'`", name=error.name
        ) from None


def installed(package: str) -> str:
    """The version of an optional package, or nothing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
