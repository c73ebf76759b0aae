"""What releases have spent, and what a limit admits: exact arithmetic, no files. `ledger` keeps it.

**What is added up.** All releases of a data set have one neighboring relation and one unit of protection, or the sum
would mean nothing. An entry holds every guarantee that its release has (`Loss`), and each adds up by basic composition:
ε, (ε, δ) or ρ, also where a budget is chosen after earlier releases were seen (Rogers, Roth, Ullman and Vadhan 2016;
for ρ Feldman and Zrnic 2021). A limit counts in its own terms:

| limit | pure release | (ε, δ) release | ρ release |
| --- | --- | --- | --- |
| ε | ε | refused: its δ does not fit | refused |
| (ε, δ) | (ε, 0) | (ε, δ) | refused: it has no δ |
| ρ | Σ over what it measures of ε²/2 | the ρ of its noise; refused where it has a threshold | ρ |

Both conversions are of what was measured: an ε-private measurement is ε²/2-zCDP (Bun and Steinke 2016, Proposition 1.4,
which Laplace noise nearly attains where ε is small), and an (ε, δ) release is discrete Gaussian noise of known ρ. One
with a threshold (`accounting.stability`) has no ρ; it and a release in ρ have no terms in common, so the ledger takes
the one or the other for a data set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Literal

from tallytree.accounting import Plan, StabilityPlan, epsilon_from_rho
from tallytree.accounting.amounts import shown_down, shown_up
from tallytree.budget import Budget, BudgetKind
from tallytree.errors import BudgetExceeded
from tallytree.terms import Neighboring, ProtectedUnit, Unit

State = Literal["started", "finished"]
"""`"started"`: recorded, and maybe drawn; `"finished"`: handed over or saved. Both are spent."""

_TERMS: dict[BudgetKind, tuple[str, ...]] = {
    "pure": ("epsilon",),
    "approximate": ("epsilon", "delta"),
    "zcdp": ("rho",),
}


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
        rho = Fraction(0)
        for each in plan.measured:
            rho += each.cost**2 / 2 if each.noise.distribution == "discrete_laplace" else each.cost
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
        return _added([self], self.kind)


MOST_CHARACTERS = 500
"""Of a text in an approval."""


@dataclass(frozen=True, kw_only=True)
class Approval:
    """Who approved something, why, and a reference to it; each may be left out.

    Attributes:
        approved_by: who approved it.
        reason: why.
        ticket: a reference, such as the number of a ticket or of a decision.

    Raises:
        TypeError: something that is not text.
        ValueError: text that is empty, too long, or cannot be printed.
    """

    approved_by: str | None = None
    reason: str | None = None
    ticket: str | None = None

    def __post_init__(self) -> None:
        """Check the texts."""
        for field in fields(self):
            text = getattr(self, field.name)
            if text is None:
                continue
            if not isinstance(text, str):
                raise TypeError(f"{field.name}: {type(text).__name__} must be text")
            if not text.strip() or not text.isprintable() or len(text) > MOST_CHARACTERS:
                raise ValueError(
                    f"{field.name}: {text[:60]!r} must be one line of 1 to {MOST_CHARACTERS} printable characters"
                )

    def stated(self) -> dict[str, str]:
        """What was given, by name."""
        return {field.name: text for field in fields(self) if (text := getattr(self, field.name)) is not None}


@dataclass(frozen=True, kw_only=True)
class Posting:
    """What is recorded of a release; nothing in it depends on a record.

    Attributes:
        dataset: the declared name of the data set.
        statistic: `"counts"`, `"flows"` or `"group_sizes"`.
        mechanism: the mechanism's name.
        neighboring: the neighboring relation.
        max_contributions: the most records of one person.
        unit: what a person has so many of.
        loss: what the release spends.
        run: the name of the run; None for a release that cannot be made again.
        plan: 64 hex digits, the public digest of the spec and of the planned statement; None where none is known.
        approval: who approved the release, and why.
    """

    dataset: str
    statistic: str
    mechanism: str
    neighboring: Neighboring
    max_contributions: int
    unit: Unit
    loss: Loss
    run: str | None = None
    plan: str | None = None
    approval: Approval = Approval()


@dataclass(frozen=True, kw_only=True)
class Entry(Posting):
    """A release that was recorded.

    Attributes:
        number: its number in the ledger.
        recorded_at: when, in UTC, as 2025-12-31T23:59:59Z.
        state: `"started"` or `"finished"`; both are spent.
        release_id: 32 random hex digits, which its folder has too; None of an entry from before there were any.
        statistics: 64 hex digits, a digest of the statistics that is keyed by the publisher's secret; None without one.
        position: its place among all events of the ledger.
        version: the version of tallytree that recorded it.
    """

    number: int
    recorded_at: str
    state: State
    release_id: str | None
    statistics: str | None
    position: int
    version: str


@dataclass(frozen=True, kw_only=True)
class LimitEntry:
    """A limit that was set.

    Attributes:
        set_at: when, in UTC, as 2025-12-31T23:59:59Z.
        limit: the limit.
        raised: whether it admits losses that the limit before it did not.
        approval: who approved it, and why.
        position: its place among all events of the ledger.
    """

    set_at: str
    limit: Budget
    raised: bool
    approval: Approval
    position: int


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set with its limits and its releases.

    Attributes:
        name: its declared name.
        neighboring: the neighboring relation of all its releases.
        max_contributions: the most records of one person that is stated for all its releases; None where each release
            has its own.
        unit: the unit of protection; None, in old ledgers, until the first release or a limit says so.
        limits: what all its releases may spend; the last one counts.
        entries: its releases, in the order they were recorded.
    """

    name: str
    neighboring: Neighboring
    max_contributions: int | None
    unit: ProtectedUnit | None
    limits: tuple[LimitEntry, ...] = ()
    entries: tuple[Entry, ...] = ()

    @property
    def limit(self) -> Budget | None:
        """What all its releases may spend; None without a limit."""
        return self.limits[-1].limit if self.limits else None

    @property
    def kind(self) -> BudgetKind:
        """The terms it is added up in: its limit's, or without one the strongest that all its releases have."""
        if self.limit is not None:
            return self.limit.kind
        return _strongest([entry.loss for entry in self.entries])

    @property
    def spent(self) -> dict[str, Fraction]:
        """The sum of its releases, exactly."""
        return _added([entry.loss for entry in self.entries], self.kind)

    def running_totals(self) -> Iterator[dict[str, Fraction]]:
        """What was spent once each release was recorded, exactly."""
        total = _added([], self.kind)
        for entry in self.entries:
            loss = _added([entry.loss], self.kind)
            total = {name: total[name] + loss[name] for name in total}
            yield total

    @property
    def remaining(self) -> dict[str, Fraction] | None:
        """What its limit leaves; None without a limit."""
        if self.limit is None:
            return None
        spent = self.spent
        return {name: amount - spent[name] for name, amount in granted(self.limit).items()}

    def check_terms(
        self, neighboring: Neighboring | None, max_contributions: int | None, unit: ProtectedUnit | None
    ) -> None:
        """Refuse another relation or unit, or another contribution bound than the one that is stated for all releases.

        Raises:
            ValueError: losses under these terms do not add up with those in the ledger.
        """
        theirs = {"neighboring": self.neighboring, "max_contributions": self.max_contributions, "unit": self.unit}
        ours = {"neighboring": neighboring, "max_contributions": max_contributions, "unit": unit}
        for name, kept in theirs.items():
            if ours[name] is not None and kept is not None and ours[name] != kept:
                argument = "dataset" if name == "unit" else name
                raise ValueError(
                    f"{argument}: {ours[name]!r} is the {_NAMES[name]} here, but that of the data set {self.name!r} in "
                    f"the ledger is {kept!r}; what is spent under both does not add up, so keep to {kept!r}, or divide "
                    "what people may lose between two data sets, each with its own limit"
                )

    def check_release_terms(self, posting: Posting) -> None:
        """Refuse a release under other terms; where the unit is the person, it may have a bound of its own.

        Raises:
            ValueError: its loss does not add up with those in the ledger, or its bound is below the one that is stated.
        """
        if self.unit != "person":
            self.check_terms(posting.neighboring, posting.max_contributions, posting.unit)
            return
        self.check_terms(posting.neighboring, None, None)
        if self.max_contributions is not None and posting.max_contributions < self.max_contributions:
            raise ValueError(
                f"max_contributions: {posting.max_contributions} protects only a part of a person of the data set "
                f"{self.name!r}, who has up to {self.max_contributions} records as the ledger states; give at least "
                f"{self.max_contributions}"
            )

    def check_stated_bound(self, max_contributions: int) -> None:
        """Refuse to state a bound on a person's records that an earlier release does not protect.

        Raises:
            ValueError: a release was made for people with fewer records.
        """
        least = min((entry.max_contributions for entry in self.entries), default=max_contributions)
        if least < max_contributions:
            raise ValueError(
                f"max_contributions: {max_contributions} records of a person are more than the {least} that a release "
                f"of the data set {self.name!r} protects; give at most {least}, or leave it out"
            )

    def check_room(self, loss: Loss) -> None:
        """Refuse a release that the limit does not admit.

        Raises:
            BudgetExceeded: it would spend more than is left.
            ValueError: it cannot be counted in the limit's terms, or without a limit in those of earlier releases.
        """
        if self.limit is None:
            losses = [*(entry.loss for entry in self.entries), loss]
            if not _countable(losses, _strongest(losses)):
                raise ValueError(
                    f"budget: {shown(loss.stated())} cannot be added to what the data set {self.name!r} has spent: "
                    "releases in rho and releases with a threshold, of which no rho holds, have no terms in common; "
                    "keep to the one or the other, with epsilon and delta instead of rho"
                )
            return
        if not _countable([loss], self.limit.kind):
            raise ValueError(
                f"budget: {shown(loss.stated())} cannot be counted against the limit of the data set {self.name!r}, "
                f"{shown(granted(self.limit))}; give {_WHAT_FITS[self.limit.kind]}, or set its limit in "
                f"{_terms_that_count(loss)}"
            )
        asked, remaining = _added([loss], self.limit.kind), self.remaining or {}
        if any(amount > remaining[name] for name, amount in asked.items()):
            raise BudgetExceeded(
                f"budget: {shown(asked)} is more than the {shown(remaining, down=True)} that is left of "
                f"the limit of the data set {self.name!r}, {shown(granted(self.limit))}; grant less, or raise the "
                "limit with `tallytree limit`"
            )

    def check_limit(self, budget: Budget) -> None:
        """Refuse a limit that what was spent already breaks, or cannot be counted in.

        Raises:
            ValueError: it does.
        """
        losses = [entry.loss for entry in self.entries]
        thresholds = any(loss.rho is None for loss in losses)
        if not _countable(losses, budget.kind):
            raise ValueError(
                f"budget: the data set has releases that a limit of {shown(granted(budget))} cannot count; set it in "
                f"{'epsilon and delta' if thresholds else 'rho'}, which counts every release"
            )
        spent = _added(losses, budget.kind)
        if any(spent[name] > amount for name, amount in granted(budget).items()):
            raise ValueError(
                f"budget: a limit of {shown(granted(budget))} is less than what is spent already, {shown(spent)}; "
                "nothing can be given back, so set at least that"
            )


_NAMES = {"neighboring": "relation", "max_contributions": "bound on a person's records", "unit": "unit of protection"}

_WHAT_FITS: dict[BudgetKind, str] = {
    "pure": "a budget in epsilon alone",
    "approximate": "a budget in epsilon, with or without delta",
    "zcdp": "any budget, by a mechanism without a threshold",
}


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


def _terms_that_count(loss: Loss) -> str:
    """The terms of limits, other than ε alone, that a release can be counted in."""
    if loss.epsilon is None:
        return "rho"
    return "epsilon and delta" if loss.rho is None else "epsilon and delta, or in rho"


def _strongest(losses: Sequence[Loss]) -> BudgetKind:
    """The strongest terms that each of them may have; `_countable` says whether it has."""
    kinds = {loss.kind for loss, _ in _counted(losses)}
    return "zcdp" if "zcdp" in kinds else "approximate" if "approximate" in kinds else "pure"


def _countable(losses: Sequence[Loss], kind: BudgetKind) -> bool:
    """Whether every loss can be stated in these terms."""
    if kind == "zcdp":
        return all(loss.rho is not None for loss, _ in _counted(losses))
    return all(loss.kind in ("pure", kind) for loss, _ in _counted(losses))


def _added(losses: Sequence[Loss], kind: BudgetKind) -> dict[str, Fraction]:
    """The sum of losses that can be stated in these terms, exactly.

    Raises:
        ValueError: one of them cannot be; the ledger admits none such.
    """
    if not _countable(losses, kind):
        raise ValueError(
            f"ledger: a release in it cannot be counted in {', '.join(_TERMS[kind])}; it was tampered with"
        )
    counted = _counted(losses)
    return {name: _sum([getattr(loss, name) * times for loss, times in counted]) for name in _TERMS[kind]}


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
    return {name: getattr(budget, name) for name in _TERMS[budget.kind]}


def shown(amounts: Mapping[str, Fraction], *, down: bool = False) -> str:
    """Amounts as text: six digits, never less than they are; where they are what is left (`down`), never more."""
    one = shown_down if down else shown_up
    return ", ".join(f"{name} {one(amount)}" for name, amount in amounts.items())
