"""Optional packages of some evaluations: imported on first use; if one is missing, the error names its extra."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def needs(module: str, *, extra: str) -> Any:
    """Import an optional package; if it is missing, the error says which extra installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name and module.split(".")[0] != error.name.split(".")[0]:
            raise  # the package is installed, but one of its dependencies is not: the original message is clearer
        raise ModuleNotFoundError(
            f"{module.split('.')[0]} is not installed: `pip install 'clock-attention[{extra}]'`", name=error.name
        ) from None


def installed(package: str) -> str:
    """The version of an optional package, or "" if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
