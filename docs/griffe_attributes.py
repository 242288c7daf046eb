"""Griffe extension: attributes that `__init__` sets without a docstring stay out of the API reference.

A dataclass keeps its fields: they are its signature.
"""

from __future__ import annotations

from typing import Any

import griffe


class Attributes(griffe.Extension):
    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        if any("dataclass" in str(decorator.value) for decorator in cls.decorators) or "BaseModel" in map(
            str, cls.bases
        ):
            return
        for name, member in list(cls.members.items()):
            if member.is_attribute and not member.docstring and "instance-attribute" in member.labels:
                cls.del_member(name)
