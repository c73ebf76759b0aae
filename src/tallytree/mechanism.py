"""What every mechanism is, whatever it measures."""

from __future__ import annotations

from abc import ABC

FOR_COMPARISON = "For comparison only."
"""How every caution ends."""


class Mechanism(ABC):  # noqa: B024  (the bases of counts and of group sizes name its methods)
    """The base of all mechanisms: a frozen dataclass, whose fields are its options.

    A mechanism sees only noisy measurements and public metadata. `counts.CountsMechanism` and `sizes.SizesMechanism`
    say which methods it has. What sets a mechanism apart from the others is a trait with a default, on one of these
    bases.
    """

    @property
    def caveat(self) -> str | None:
        """What its releases fall short of, as the rest of a sentence that begins with its name; None if nothing."""
        return None

    @property
    def caution(self) -> str | None:
        """What a release by it must say first, and warns of: the caveat, ending with `FOR_COMPARISON`; None without."""
        return None if self.caveat is None else f"{self!r} {self.caveat} {FOR_COMPARISON}"
