"""The mechanisms that a spec can name."""

from __future__ import annotations

import dataclasses
from types import ModuleType

from tallytree.kinds.mechanism import Mechanism


def known_mechanisms(package: ModuleType, base: type[Mechanism]) -> dict[str, type]:
    """The mechanisms that a package exports: its dataclasses that have the package's base."""
    exported = {name: getattr(package, name) for name in package.__all__}
    return {
        name: value
        for name, value in exported.items()
        if isinstance(value, type) and dataclasses.is_dataclass(value) and issubclass(value, base)
    }
