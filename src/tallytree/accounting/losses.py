"""Privacy losses of releases: what holds of each, how they add up, and which limit admits more than another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tallytree.accounting import Plan, StabilityPlan, epsilon_from_rho
from tallytree.accounting.amounts import shown_down, shown_up
from tallytree.budget import Budget, BudgetKind

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
        return added([self], self.kind)


def strongest(losses: Sequence[Loss]) -> BudgetKind:
    """The strongest terms that each of them may have; `countable` says whether it has."""
    kinds = {loss.kind for loss, _ in _counted(losses)}
    return "zcdp" if "zcdp" in kinds else "approximate" if "approximate" in kinds else "pure"


def countable(losses: Sequence[Loss], kind: BudgetKind) -> bool:
    """Whether every loss can be stated in these terms."""
    if kind == "zcdp":
        return all(loss.rho is not None for loss, _ in _counted(losses))
    return all(loss.kind in ("pure", kind) for loss, _ in _counted(losses))


def added(losses: Sequence[Loss], kind: BudgetKind) -> dict[str, Fraction]:
    """The sum of losses that can be stated in these terms, exactly.

    Raises:
        ValueError: one of them cannot be; the ledger admits none such.
    """
    if not countable(losses, kind):
        raise ValueError(f"ledger: a release in it cannot be counted in {', '.join(TERMS[kind])}; it was tampered with")
    counted = _counted(losses)
    return {name: _sum([getattr(loss, name) * times for loss, times in counted]) for name in TERMS[kind]}


def _counted(losses: Sequence[Loss]) -> list[tuple[Loss, int]]:
    """The losses, each object once, and how often it is there: a ledger has the same one for the same amounts.

    So the same spec run again costs no longer sum, and no rational is compared.
    """
    objects = {id(loss): loss for loss in losses}
    return [(objects[key], times) for key, times in Counter(map(id, losses)).items()]


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
