"""What releases have spent, and what a limit admits: exact arithmetic, no files. `ledger` records it.

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

**The unit person**: one sum over counts, flows and group sizes. Release i is made of its own table T_i (the same table
again, another table, or a part of one), and its contribution bound m_i says that at most m_i records of T_i belong to a
person: the rows of that person and every row that says something of that person. Let D and D' be the same collection of
tables but for one person, with at most m_i records in T_i on either side:

* add_remove: the person is in D and not in D'. T_i and T'_i differ in the presence of at most m_i records.
* change_one: the person is in both, with other records. In T_i at most m_i records are replaced by at most m_i others;
  it may be all tables at once that change.

Either way, for every i, T_i = T'_i or the two are neighbors in the sense in which release i is private: its
sensitivities (`accounting.sensitivity`) hold for any change of a person's up to m_i records in T_i, whatever happens to
that person in other tables. So release i, with its randomness fresh, has its loss for the pair, whatever was seen of
the releases before it: they may decide its table, m_i, statistic, mechanism and budget, as all that is fixed once they
are given. For pure ε the densities multiply: P(o_1, …, o_k) / P'(o_1, …, o_k) = Π P(o_i | o_1 … o_i−1) / P'(o_i | o_1 …
o_i−1) ≤ exp(Σ ε_i). For (ε, δ) and ρ the sums hold by the same argument and their composition theorems, which are
adaptive (above). The m_i need not be equal. In add_remove the person may be in some of the tables only, and in
change_one have fewer records: both are changes of at most m_i records. (That change_one with m_i = 1 publishes a total
exactly is an invariant of that release, which its statement lists: the pair is one in which the person has exactly one
record of T_i on both sides.)

A bound M on a person's records, where one is stated for the data set, is a claim about the people: no person has more
than M records in any table. A release with m_i ≥ M protects every such person, in both relations: the pairs of people
with at most M records are among its pairs (with M on either side in change_one). One with m_i < M does not: for a
person of M records it bounds only the part of the change that m_i records make. So that is refused, and m_i > M is not.

Under the units record, trip and membership, which one statistic has, the bound is the same number for all releases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Literal

from tallytree.accounting.losses import Loss, LossSums, admits_more, granted, shown
from tallytree.accounting.periods import ALL_TIME, Dated, Period, Window, added
from tallytree.budget import Budget, BudgetKind
from tallytree.errors import BudgetExceeded
from tallytree.kinds.registry import KINDS
from tallytree.kinds.terms import Neighboring, ProtectedUnit, Unit

State = Literal["started", "finished"]
"""`"started"`: recorded, and maybe drawn; `"finished"`: handed over or saved, or, of a release that can be repeated,
complete, so that it may have been seen. Both are spent."""

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
        for each in fields(self):
            text = getattr(self, each.name)
            if text is None:
                continue
            if not isinstance(text, str):
                raise TypeError(f"{each.name}: {type(text).__name__} must be text")
            if not text.strip() or not text.isprintable() or len(text) > MOST_CHARACTERS:
                raise ValueError(
                    f"{each.name}: {text[:60]!r} must be one line of 1 to {MOST_CHARACTERS} printable characters"
                )

    def stated(self) -> dict[str, str]:
        """What was given, by name."""
        return {each.name: text for each in fields(self) if (text := getattr(self, each.name)) is not None}


def protects_all_records(statistic: str) -> bool:
    """Whether releases of a statistic protect a person with any number of records, whatever `max_contributions` is.

    A ledger may have releases of statistics that only a later version knows: those count as bound by theirs.
    """
    return statistic in KINDS and KINDS[statistic].protects_all_records


@dataclass(frozen=True, kw_only=True)
class Posting:
    """What is recorded of a release; nothing in it depends on a record.

    Attributes:
        dataset: the declared name of the data set.
        statistic: the name of what is released.
        mechanism: the mechanism's name.
        neighboring: the neighboring relation.
        max_contributions: the most records of one person.
        unit: what a person has so many of.
        loss: what the release spends.
        run: the name of the run; None for a release that cannot be made again.
        plan: 64 hex digits, the public digest of the spec and of the planned statement; None where none is known.
        approval: who approved the release, and why.
        period: the days that its records are about; None where that is not known.
        revises: the id of the earlier release that it takes the place of; None of one that revises none.
        parts: public digests of parts of the plan, by what they are called: "the spec" and others. They only say which
            part of another plan differs; None where they are not known.
        prior: the digest of its prior, "prior", and the id of the release that this is, "release"; None without one.
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
    period: Period | None = None
    revises: str | None = None
    parts: Mapping[str, str] | None = field(default=None, hash=False)
    prior: Mapping[str, str] | None = field(default=None, hash=False)

    @property
    def protects_all_records(self) -> bool:
        """Whether it protects a person with any number of records, whatever `max_contributions` is."""
        return protects_all_records(self.statistic)


@dataclass(frozen=True, kw_only=True)
class Entry(Posting):
    """A release that was recorded.

    Attributes:
        number: its number in the ledger.
        recorded_at: when, in UTC, as 2025-12-31T23:59:59Z.
        state: `"started"` or `"finished"`; both are spent.
        release_id: 32 random hex digits, which its folder has too.
        statistics: 64 hex digits, a digest of the statistics that is keyed by the publisher's secret; None without one.
        position: its place among all events of the ledger.
        version: the version of tallytree that recorded it.
        inputs: 64 hex digits, a digest of which files the records were read from, keyed by the publisher's secret; None
            where that is not known.
    """

    number: int
    recorded_at: str
    state: State
    release_id: str
    statistics: str | None
    position: int
    version: str
    inputs: str | None = None


@dataclass(frozen=True, kw_only=True)
class LimitEntry:
    """A limit that was set.

    Attributes:
        set_at: when, in UTC, as 2025-12-31T23:59:59Z.
        limit: the limit.
        raised: whether it admits losses that the limit before it did not.
        approval: who approved it, and why.
        position: its place among all events of the ledger.
        window: the windows of time in each of which the releases together may spend that.
    """

    set_at: str
    limit: Budget
    raised: bool
    approval: Approval
    position: int
    window: Window = ALL_TIME


__all__ = [
    "Approval",
    "DataSet",
    "Entry",
    "LimitEntry",
    "Loss",
    "LossSums",
    "Posting",
    "Standing",
    "State",
    "admits_more",
    "granted",
    "shown",
]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where a data set stands: its terms, its limits, and what its releases add up to.

    Attributes:
        name: its declared name.
        neighboring: the neighboring relation of all its releases.
        max_contributions: the most records of one person that is stated for all its releases; None where each release
            has its own.
        unit: the unit of protection; None, in old ledgers, until the first release or a limit says so.
        limits: what its releases may spend, in all or in each window of time; of each kind of window the last counts.
        sums: what its releases add up to.
        dated: the same by their period.
        least_bound: the smallest contribution bound of a release that does not protect all records; None without one.
        most_bounds: the largest contribution bound of its releases, by statistic.
    """

    name: str
    neighboring: Neighboring
    max_contributions: int | None
    unit: ProtectedUnit | None
    limits: tuple[LimitEntry, ...] = ()
    sums: LossSums = field(default_factory=LossSums)
    dated: Dated = field(default_factory=dict)
    least_bound: int | None = None
    most_bounds: Mapping[str, int] = field(default_factory=dict)

    @property
    def limit(self) -> Budget | None:
        """What all its releases may spend; None without a limit."""
        return self.limit_of(ALL_TIME)

    def limit_of(self, window: Window) -> Budget | None:
        """What its releases may spend in each window of a kind; None without such a limit."""
        return next((each.limit for each in reversed(self.limits) if each.window == window), None)

    @property
    def window_limits(self) -> dict[Window, Budget]:
        """The limits of windows of time, without that of all time, in the order in which they were first set."""
        return {each.window: each.limit for each in self.limits if each.window != ALL_TIME}

    def spent_in(self, window: Window) -> list[tuple[Period, LossSums]]:
        """What the releases spent in each window that one of them meets; of rolling ones, those with the most.

        A release without a period counts in each.
        """
        return window.met(self.dated)

    @property
    def kind(self) -> BudgetKind:
        """The terms it is added up in: its limit's, or without one the strongest that all its releases have."""
        return self.sums.kind if self.limit is None else self.limit.kind

    @property
    def spent(self) -> dict[str, Fraction]:
        """The sum of its releases, exactly."""
        return self.sums.stated(self.kind)

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
        most = None if posting.protects_all_records else posting.max_contributions
        if self.unit != "person":
            self.check_terms(posting.neighboring, most, posting.unit)
            return
        self.check_terms(posting.neighboring, None, None)
        if most is None:
            return
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
        least = self.least_bound
        if least is not None and least < max_contributions:
            raise ValueError(
                f"max_contributions: {max_contributions} records of a person are more than the {least} that a release "
                f"of the data set {self.name!r} protects; give at most {least}, or leave it out"
            )

    def check_room(self, loss: Loss, period: Period | None = None) -> None:
        """Refuse a release that the limits do not admit.

        Args:
            loss: what it spends.
            period: the days that it is about; None where that is not known.

        Raises:
            BudgetExceeded: it would spend more than is left.
            ValueError: it cannot be counted in a limit's terms, or without a limit in those of earlier releases.
        """
        for window, limit in self.window_limits.items():
            self._check_countable(loss, limit, window)
            for days, spent in window.sums(self.dated, period):
                self._check_fits(loss, limit, spent, window, days)
        if self.limit is None:
            together = self.sums + loss.sums
            if not together.countable(together.kind):
                raise ValueError(
                    f"budget: {shown(loss.stated())} cannot be added to what the data set {self.name!r} has spent: "
                    "releases in rho and releases with a threshold, of which no rho holds, have no terms in common; "
                    "keep to the one or the other, with epsilon and delta instead of rho"
                )
            return
        self._check_countable(loss, self.limit, ALL_TIME)
        self._check_fits(loss, self.limit, self.sums, ALL_TIME, None)

    def _check_countable(self, loss: Loss, limit: Budget, window: Window) -> None:
        if not loss.sums.countable(limit.kind):
            raise ValueError(
                f"budget: {shown(loss.stated())} cannot be counted against the limit{_of(window)} of the data set "
                f"{self.name!r}, {shown(granted(limit))}; {self._remedies(loss, limit.kind)}"
            )

    def _check_fits(self, loss: Loss, limit: Budget, spent: LossSums, window: Window, days: Period | None) -> None:
        """Refuse a loss that is more than what is left of a limit, in one of its windows."""
        asked, known = loss.sums.stated(limit.kind), spent.stated(limit.kind)
        remaining = {name: amount - known[name] for name, amount in granted(limit).items()}
        if any(amount > remaining[name] for name, amount in asked.items()):
            where = "" if days is None else f" in {days}"
            raise BudgetExceeded(
                f"budget: {shown(asked)} is more than the {shown(remaining, down=True)} that is left{where} of "
                f"the limit{_of(window)} of the data set {self.name!r}, {shown(granted(limit))}; give a smaller "
                "budget, or raise the limit with `tallytree limit`"
            )

    def _remedies(self, loss: Loss, kind: BudgetKind) -> str:
        """What to give in place of a loss that a limit of this kind cannot count, or in what terms to set the limit."""
        fits = _WHAT_FITS[kind]
        if kind == "pure" and loss.rho is None:  # of a threshold, which no budget in epsilon alone has
            fits += ", by a mechanism without a threshold"
        together = self.sums + loss.sums
        terms = [words for other, words in _TERMS_OF_LIMITS.items() if other != kind and together.countable(other)]
        return f"give {fits}" + (f", or set its limit in {', or in '.join(terms)}" if terms else "")

    def check_limit(self, budget: Budget, window: Window = ALL_TIME) -> None:
        """Refuse a limit that what was spent already breaks, or cannot be counted in.

        Raises:
            ValueError: it does.
        """
        if not self.sums.countable(budget.kind):
            raise ValueError(
                f"budget: the data set has releases that a limit of {shown(granted(budget))} cannot count; set it in "
                f"{'epsilon and delta' if self.sums.without_rho else 'rho'}, which counts every release"
            )
        sums = [(None, self.sums)] if window == ALL_TIME else window.sums(self.dated)
        for days, each in sums:
            spent = each.stated(budget.kind)
            if any(spent[name] > amount for name, amount in granted(budget).items()):
                raise ValueError(
                    f"budget: a limit{_of(window)} of {shown(granted(budget))} is less than what is spent already"
                    f"{'' if days is None else f' in {days}'}, {shown(spent)}; nothing can be given back, so set at "
                    "least that"
                )


@dataclass(frozen=True, kw_only=True)
class DataSet(Standing):
    """A data set with its limits and every one of its releases, whose sums are those of the entries.

    Attributes:
        entries: its releases, in the order they were recorded.
    """

    entries: tuple[Entry, ...] = ()
    sums: LossSums = field(init=False)
    dated: Dated = field(init=False)
    least_bound: int | None = field(init=False)
    most_bounds: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        """Add the entries up."""
        losses: dict[Period | None, list[Loss]] = {}
        for entry in self.entries:
            losses.setdefault(entry.period, []).append(entry.loss)
        dated = {period: LossSums.of(_counted(each)) for period, each in losses.items()}
        object.__setattr__(self, "dated", dated)
        object.__setattr__(self, "sums", added(dated.values()))
        bounds = [entry.max_contributions for entry in self.entries if not entry.protects_all_records]
        object.__setattr__(self, "least_bound", min(bounds, default=None))
        most: dict[str, int] = {}
        for entry in self.entries:
            most[entry.statistic] = max(entry.max_contributions, most.get(entry.statistic, 0))
        object.__setattr__(self, "most_bounds", most)

    def running_totals(self) -> Iterator[dict[str, Fraction]]:
        """What was spent once each release was recorded, exactly."""
        total = LossSums()
        for entry in self.entries:
            total = total + entry.loss.sums
            yield total.stated(self.kind)


def _of(window: Window) -> str:
    return "" if window == ALL_TIME else f" of {window.words}"


def _counted(losses: Iterable[Loss]) -> list[tuple[Loss, int]]:
    """The losses, each object once, and how often it is there: a ledger has the same one for the same amounts.

    So no rational is compared.
    """
    known = [*losses]
    objects = {id(loss): loss for loss in known}
    return [(objects[key], times) for key, times in Counter(map(id, known)).items()]


_NAMES = {"neighboring": "relation", "max_contributions": "bound on a person's records", "unit": "unit of protection"}

_WHAT_FITS: dict[BudgetKind, str] = {
    "pure": "a budget in epsilon alone",
    "approximate": "a budget in epsilon, with or without delta",
    "zcdp": "any budget, by a mechanism without a threshold",
}

_TERMS_OF_LIMITS: dict[BudgetKind, str] = {"approximate": "epsilon and delta", "zcdp": "rho"}
"""Of limits that count more than epsilon alone."""
