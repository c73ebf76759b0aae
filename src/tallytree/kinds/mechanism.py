"""`Mechanism`: the base of all mechanisms, for counts and for group sizes."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import ClassVar, Literal, Self

from tallytree.support.validate import safe_text

MOST_OF_GENERAL_SOLVERS = 2**39
"""The most records or groups that a general solver takes: it computes in floats, to 2^40 with the noise."""
FOR_COMPARISON = "For comparison only."
"""The last sentence of every caution."""

Promise = Literal["adds_up", "not_negative", "integers", "public_numbers"]
PROMISES: Mapping[Promise, str] = {
    "adds_up": "the numbers of the children of a node add up to the node's",
    "not_negative": "no number is negative",
    "integers": "all numbers are integers",
    "public_numbers": "numbers that are public are published as they are",
}
"""What the releases of every mechanism keep, unless it says otherwise (`Mechanism.breaks`)."""


class Mechanism(ABC):
    """The base of all mechanisms: a frozen dataclass, whose fields are its options.

    A mechanism sees only noisy measurements and public metadata. Its methods are those of `counts.CountsMechanism` or
    `sizes.SizesMechanism`. Where one mechanism differs from the others, it overrides a trait that has a default in one
    of these bases.

    Attributes:
        package: where the mechanisms of this kind are, as messages name it.
        breaks: of a mechanism from outside, the `PROMISES` that its releases need not keep. What it breaks beside these
            is refused before a release is paid for.
    """

    package: ClassVar[str]
    breaks: ClassVar[frozenset[Promise]] = frozenset()

    @classmethod
    def chosen(cls, given: object, default: Self) -> Self:
        """The mechanism that the argument `mechanism` gives, or `default` where it is None.

        Raises:
            TypeError: not a mechanism of this kind, for instance a class without parentheses.
        """
        if given is None:
            return default
        if not isinstance(given, cls) or not is_dataclass(type(given)):
            if isinstance(given, type):
                raise TypeError(f"mechanism: {given.__name__} is a class; write {given.__name__}()")
            raise TypeError(
                f"mechanism: {safe_text(given)} must be one of {cls.package}, for instance {type(default).__name__}()"
            )
        return given

    @property
    def caveat(self) -> str | None:
        """The promise that its releases do not keep, as the rest of a sentence that begins with its name; or None."""
        broken = [f"that {words}" for name, words in PROMISES.items() if name in self.breaks]
        return f"does not promise {', nor '.join(broken)}." if broken else None

    @property
    def most(self) -> int | None:
        """The most records, or groups, in all that it takes; None where it takes all that are tabulated.

        More are refused before the release is paid for.
        """
        return None

    @property
    def caution(self) -> str | None:
        """The warning and the first note of a release by it: the caveat and `FOR_COMPARISON`; None without a caveat."""
        return None if self.caveat is None else f"{self!r} {self.caveat} {FOR_COMPARISON}"
