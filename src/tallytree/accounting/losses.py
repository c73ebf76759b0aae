"""Privacy losses of releases: what holds of each, how they add up, which limit admits more, and how they are shown.

What was spent is rounded up, what is left is rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction

from tallytree.accounting import Plan, StabilityPlan, epsilon_from_rho
from tallytree.budget import Budget, BudgetKind

_LEAST, _MOST = Decimal("1e-300"), Decimal("1e300")


def shown_up(amount: Fraction | float) -> str:
    """An amount of privacy loss in six digits, rounded up: what is shown is never less than what was spent."""
    return _shown(amount, ROUND_CEILING)


def shown_down(amount: Fraction | float) -> str:
    """An amount of privacy loss that is left, in six digits, rounded down."""
    return _shown(amount, ROUND_FLOOR)


def _shown(amount: Fraction | float, rounding: str) -> str:
    exact = amount if isinstance(amount, Fraction) else Fraction(repr(amount))
    with localcontext(Context(prec=60)):
        digits = Decimal(exact.numerator) / Decimal(exact.denominator)
        rounded = Context(prec=6, rounding=rounding).create_decimal(digits)
    if rounded and not _LEAST <= abs(rounded) <= _MOST:
        return f"{rounded.normalize():.6g}"  # no float is as near to it: it would show as 0
    return f"{float(rounded):.6g}"


def float_up(amount: Fraction) -> float:
    """The least float that, as the decimal number it is written as, is not below the amount."""
    nearest = float(amount)
    return nearest if Fraction(repr(nearest)) >= amount else math.nextafter(nearest, math.inf)


TERMS: dict[BudgetKind, tuple[str, ...]] = {
    "pure": ("epsilon",),
    "approximate": ("epsilon", "delta"),
    "zcdp": ("rho",),
}
"""The amounts of every kind of budget."""


@dataclass(frozen=True)
class Loss:
    """What holds of one release: it is (ε, δ)-private where they are known, and ρ-zCDP where that is.

    Attributes:
        epsilon: ε, or None where only ρ was promised.
        delta: δ; 0 where the release is purely private, None beside an ε that is None.
        rho: ρ; None where none holds, as of counts above a threshold.
    """

    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None

    def __post_init__(self) -> None:
        """Refuse amounts that no release can have: they would be added up."""
        amounts = [amount for amount in (self.epsilon, self.delta, self.rho) if amount is not None]
        if not all(isinstance(amount, Fraction | int) and amount >= 0 for amount in amounts):
            raise ValueError(f"loss: {amounts} must be exact rationals, 0 or more")
        if (self.epsilon is None) != (self.delta is None) or (self.delta is not None and self.delta >= 1):
            raise ValueError(f"loss: epsilon={self.epsilon} goes with a delta below 1, not with delta={self.delta}")
        if self.rho is None and not self.delta:
            raise ValueError("loss: without a rho it needs epsilon and delta; pure releases have a rho")

    @classmethod
    def of(cls, plan: Plan) -> Loss:
        """What a plan spends, exactly; the module's docstring says why its ρ holds."""
        if isinstance(plan, StabilityPlan):
            return cls(plan.spent["epsilon"], plan.spent["delta"], None)
        rho = sum(plan.rho_of_each, Fraction(0))
        spent = plan.spent
        if "epsilon" not in spent:
            return cls(None, None, rho)
        return cls(spent["epsilon"], spent.get("delta", Fraction(0)), rho)

    @property
    def kind(self) -> BudgetKind:
        """The strongest terms in which it can be stated."""
        if self.epsilon is None:
            return "zcdp"
        return "approximate" if self.delta else "pure"

    def stated(self) -> dict[str, Fraction]:
        """In those terms."""
        return self.sums.stated(self.kind)

    @property
    def sums(self) -> LossSums:
        """The sums of this loss alone."""
        return LossSums.of([(self, 1)])


@dataclass(frozen=True)
class LossSums:
    """What losses add up to, exactly, and which terms all of them have.

    Attributes:
        number: how many losses.
        epsilon: the sum of ε over those that have one.
        delta: the sum of δ over the same.
        rho: the sum of ρ over those that have one.
        without_epsilon: how many have no ε.
        with_delta: how many have a δ above 0.
        without_rho: how many have no ρ.
    """

    number: int = 0
    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    without_epsilon: int = 0
    with_delta: int = 0
    without_rho: int = 0

    @classmethod
    def of(cls, losses: Iterable[tuple[Loss, int]]) -> LossSums:
        """The sums of losses, each with how often it is there.

        So the same amounts cost one multiplication, and sums of other amounts are added in halves.
        """
        counted = [*losses]
        sums = {
            name: _sum([amount * times for loss, times in counted if (amount := getattr(loss, name)) is not None])
            for name in ("epsilon", "delta", "rho")
        }
        return cls(
            number=sum(times for _, times in counted),
            **sums,
            without_epsilon=sum(times for loss, times in counted if loss.epsilon is None),
            with_delta=sum(times for loss, times in counted if loss.delta),
            without_rho=sum(times for loss, times in counted if loss.rho is None),
        )

    def __add__(self, more: LossSums) -> LossSums:
        return LossSums(*(getattr(self, one.name) + getattr(more, one.name) for one in fields(self)))

    def __sub__(self, part: LossSums) -> LossSums:
        return LossSums(*(getattr(self, one.name) - getattr(part, one.name) for one in fields(self)))

    @property
    def kind(self) -> BudgetKind:
        """The strongest terms that each loss may have; `countable` says whether it has."""
        return "zcdp" if self.without_epsilon else "approximate" if self.with_delta else "pure"

    def countable(self, kind: BudgetKind) -> bool:
        """Whether every loss can be stated in these terms."""
        if kind == "zcdp":
            return not self.without_rho
        return not self.without_epsilon and not (kind == "pure" and self.with_delta)

    def stated(self, kind: BudgetKind) -> dict[str, Fraction]:
        """The sum of losses that can be stated in these terms, exactly.

        Raises:
            ValueError: one of them cannot be; the ledger admits none such.
        """
        if not self.countable(kind):
            raise ValueError(
                f"ledger: a release in it cannot be counted in {', '.join(TERMS[kind])}; it was tampered with"
            )
        return {name: getattr(self, name) for name in TERMS[kind]}


def _sum(terms: Sequence[Fraction]) -> Fraction:
    """Added up in halves, since denominators grow with the number of terms."""
    if len(terms) <= 1:
        return terms[0] if terms else Fraction(0)
    middle = len(terms) // 2
    return _sum(terms[:middle]) + _sum(terms[middle:])


def granted(budget: Budget) -> dict[str, Fraction]:
    """A budget's amounts by name."""
    return {name: getattr(budget, name) for name in TERMS[budget.kind]}


def shown(amounts: Mapping[str, Fraction], *, down: bool = False) -> str:
    """Amounts as text: six digits, never less than they are; where they are what is left (`down`), never more."""
    one = shown_down if down else shown_up
    return ", ".join(f"{name} {one(amount)}" for name, amount in amounts.items())


def admits_more(new: Budget, old: Budget) -> bool:
    """Whether a limit admits losses that an older one does not: unless the new one implies the old one.

    ε implies (ε, δ) and ρ = ε²/2 (Bun and Steinke 2016, Proposition 1.4), and ρ implies (ε, δ) by the conversion
    (`accounting.conversions`); nothing else implies a limit of another kind.
    """
    if old.kind == "zcdp" and new.kind == "pure":
        return granted(new)["epsilon"] ** 2 / 2 > granted(old)["rho"]
    if old.kind == "approximate" and new.kind == "zcdp":
        terms = granted(old)
        return epsilon_from_rho(granted(new)["rho"], terms["delta"], "zcdp") > terms["epsilon"]
    if old.kind != new.kind and (old.kind, new.kind) != ("approximate", "pure"):
        return True
    return any(amount > granted(old)[name] for name, amount in granted(new).items())
