"""Which mechanism is meant, where it may be left out."""

from __future__ import annotations

from dataclasses import is_dataclass

from tallytree.sizes.joint import Joint
from tallytree.sizes.mechanism import SizesMechanism


def chosen_mechanism(given: object) -> SizesMechanism:
    """The mechanism that was given, or the default.

    Raises:
        TypeError: not a mechanism for group sizes.
    """
    if given is None:
        return Joint()
    if not isinstance(given, SizesMechanism) or not is_dataclass(type(given)):
        raise TypeError(
            f"mechanism: {given!r} must be one of tallytree.sizes, made with its options, for instance Joint()"
        )
    return given
