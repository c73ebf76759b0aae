"""From arguments to a planned job: everything is checked here, before any private data is opened."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, is_dataclass, replace
from fractions import Fraction
from itertools import zip_longest
from typing import Any, cast, get_args

from tallytree.budget import Budget, BudgetSplit, shares
from tallytree.counts import CountsMechanism, TopDown
from tallytree.engines.engine import Engine
from tallytree.engines.local import Local
from tallytree.hierarchy import Hierarchy, Tree, check_level_names, level_sizes
from tallytree.jobs import CountsJob, GroupSizesJob
from tallytree.jobs.sizes import groups_of_leaves
from tallytree.measurements import Statistic
from tallytree.privacy.accounting import Asked, NoisePlan, composable_budget, plan_noise
from tallytree.privacy.ledger import Account, Ledger, checked_name
from tallytree.privacy.scales import next_float, representable
from tallytree.privacy.sensitivity import Sensitivity, effective_quantity, largest_size_sensitivity, level_sensitivities
from tallytree.privacy.spending import Loss, Posting
from tallytree.product import Product
from tallytree.sizes import HasLimit, SizesMechanism, UnderstatesLoss
from tallytree.sizes.auto_split import auto_split
from tallytree.sizes.choice import chosen_mechanism
from tallytree.sizes.mechanism import caveat_of
from tallytree.sizes.private_maximum import PrivateMaximum, largest_size
from tallytree.statement import shown_up
from tallytree.tabulate.records import LeafKey
from tallytree.terms import UNITS, Invariants, Terms, checked_terms, integer

ROOT_STATISTICS: frozenset[Statistic] = frozenset(("total",))
COUNTS_STATISTICS: frozenset[Statistic] = frozenset(("counts",))
SIZES_STATISTICS: frozenset[Statistic] = frozenset(("tail_counts", "chain_tail_counts", "histogram"))

MOST_CELLS = 2**32
"""More cells take more than some 10 to 60 GB, depending on the mechanism."""

SORTED_STATISTICS: frozenset[Statistic] = frozenset(("sorted_sizes",))
"""What needs the number of groups of every node to be public, since it shows it."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments that every kind of release shares, as they were given; see `tallytree.release_counts`."""

    neighboring: str
    max_contributions: int = 1
    mechanism: CountsMechanism | SizesMechanism | None = None
    budget_split: BudgetSplit = None
    accounting: str | None = None
    on_unknown: str = "error"
    seed: int | None = None
    noise: str = "keyed"
    engine: Engine | None = None
    progress: bool = False
    ledger: Ledger | str | os.PathLike[str] | None = None
    dataset: str | None = None

    def terms(self) -> Terms:
        """Those that say what is protected, validated."""
        return checked_terms(self.neighboring, self.max_contributions, self.on_unknown, self.noise, self.seed)

    def plan(
        self,
        budget: Budget,
        statistics: Mapping[str, Statistic],
        terms: Terms,
        tree: Tree,
        *,
        max_quantity: int = 1,
        understatement: Mapping[str, int] | None = None,
        maximum_share: Fraction | None = None,
        auto_split: Callable[[Mapping[str, float], bool], BudgetSplit] | None = None,
    ) -> NoisePlan:
        """The noise of every measured level, with the sensitivity of what is measured there.

        The largest size is measured where there is a share for it.

        `auto_split` is what `budget_split="auto"` means: from each level's noise (std_dev) if it had all of the budget,
        and whether shares are of ρ, to shares.

        Where a mechanism's published calibration understates the loss of levels by factors, the plan has the noise that
        was published, and the budget which that truly spends.
        """
        grid = next_float if terms.noise == "opendp" else representable
        bounds = level_sensitivities(
            statistics,
            terms.neighboring,
            terms.max_contributions,
            max_quantity=max_quantity,
            nodes=level_sizes(tree),
        )
        maximum = None
        if maximum_share is not None:
            bound = largest_size_sensitivity(terms.neighboring, terms.max_contributions, max_quantity=max_quantity)
            maximum = Asked(tree.levels[0], "largest_size", bound, maximum_share)
        split = self.budget_split
        if split == "auto" and auto_split is not None and isinstance(budget, Budget):
            split = auto_split(
                {level: _std_dev_alone(budget, bound) for level, (_, bound) in bounds.items()}, budget.kind != "pure"
            )
        if not understatement:
            return plan_noise(budget, bounds, split, self.accounting, grid, maximum)
        if not isinstance(budget, Budget) or budget.epsilon is None or budget.delta is not None:
            raise ValueError(f'budget: {budget!r} must be pure with calibration="as_published", as the paper\'s is')
        share = shares(split, list(statistics))
        rest = budget.epsilon * (1 - (maximum_share or 0))
        true = {level: rest * share[level] * understatement[level] for level in statistics}
        total = budget.epsilon - rest + sum(true.values(), Fraction(0))
        if maximum is not None:
            maximum = replace(maximum, share=(budget.epsilon - rest) / total)
        return plan_noise(Budget(epsilon=total), bounds, true, self.accounting, grid, maximum)

    def account(self, statistic: str, mechanism: object, plan: NoisePlan, terms: Terms) -> Account | None:
        """Where the release is recorded; the ledger is not opened yet."""
        if self.ledger is None and self.dataset is None:
            return None
        if self.ledger is None:
            raise ValueError(f"dataset: {self.dataset!r} is a name in a ledger; give the ledger too, or leave it out")
        if self.dataset is None:
            raise ValueError(
                f"dataset: the ledger {_ledger(self.ledger).path.name!r} keeps what is spent by data set; name the one "
                "that the records belong to, and keep to that name whenever its people are released again"
            )
        if terms.seed is not None:
            raise ValueError(
                f"seed: {terms.seed} makes a release that is not private, so no ledger takes it; leave the seed out to "
                "publish, or the ledger to experiment"
            )
        posting = Posting(
            dataset=checked_name(self.dataset),
            statistic=statistic,
            mechanism=type(mechanism).__name__,
            neighboring=terms.neighboring,
            max_contributions=terms.max_contributions,
            unit=UNITS[statistic],
            loss=Loss.of(plan),
        )
        return Account(_ledger(self.ledger), posting)


def counts_job(
    records: Any,
    hierarchy: Hierarchy | Product,
    budget: Budget,
    options: Options,
    *,
    count: str | None = None,
    argument: str = "records",
    statistic: str = "counts",
) -> CountsJob:
    """Plan a release of counts; see `tallytree.release_counts`."""
    if not isinstance(hierarchy, Hierarchy | Product):
        raise TypeError(f"hierarchy: {type(hierarchy).__name__} must be a tallytree.Hierarchy or a tallytree.Product")
    terms = options.terms()
    mechanism = _counts_mechanism(options.mechanism)
    statistics = mechanism.statistics(hierarchy, total_is_public=terms.total_is_public)
    root, *below = hierarchy.levels
    _check_statistics(mechanism, statistics, {root: ROOT_STATISTICS} | dict.fromkeys(below, COUNTS_STATISTICS))
    plan = options.plan(budget, statistics, terms, hierarchy)
    return CountsJob(
        records=records,
        tree=hierarchy,
        keys=_keys(hierarchy),
        count=_column(count, "count"),
        mechanism=mechanism,
        plan=plan,
        terms=terms,
        engine=_engine(options.engine),
        argument=argument,
        statistic=statistic,
        progress=options.progress,
        account=options.account(statistic, mechanism, plan, terms),
    )


def flows_job(
    trips: Any,
    budget: Budget,
    options: Options,
    *,
    origins: Hierarchy,
    destinations: Hierarchy,
    origin: Sequence[str],
    destination: Sequence[str],
    tree: str = "destination",
    count: str | None = None,
) -> CountsJob:
    """Plan a release of flows; see `tallytree.release_flows`."""
    if tree not in ("destination", "origin"):
        raise ValueError(f'tree: {tree!r} is not known; choose "destination" or "origin"')
    columns = {
        "origin": check_level_names(origin, "origin"),
        "destination": check_level_names(destination, "destination"),
    }
    for name, hierarchy in (("origins", origins), ("destinations", destinations)):
        if not isinstance(hierarchy, Hierarchy):
            raise TypeError(f"{name}: {type(hierarchy).__name__} must be a tallytree.Hierarchy")
    for column in sorted(set(columns["origin"]) & set(columns["destination"])):
        raise ValueError(f"destination: {column!r} is a column of origin too; each side has columns of its own")
    first, second = ("destination", "origin") if tree == "destination" else ("origin", "destination")
    order = list(_alternately(first, len(columns[first]), second, len(columns[second])))
    product = Product({"origin": origins, "destination": destinations}, order=order, columns=columns)
    return counts_job(trips, product, budget, options, count=count, argument="trips", statistic="flows")


def group_sizes_job(
    records: Any,
    hierarchy: Hierarchy,
    budget: Budget,
    options: Options,
    *,
    group: str | None = None,
    quantity: str | None = None,
    max_quantity: int = 1,
    size: str | None = None,
    groups: str | None = None,
    public_groups: Any = None,
    invariants: str | None = None,
    max_group_size: int | PrivateMaximum | str = 10_000,
    min_group_size: int = 0,
) -> GroupSizesJob:
    """Plan a release of group sizes; see `tallytree.release_group_sizes`."""
    if not isinstance(hierarchy, Hierarchy):
        raise TypeError(f"hierarchy: {type(hierarchy).__name__} must be a tallytree.Hierarchy")
    _check_kind_of_rows(group, size, groups)
    public = _public_numbers(invariants, entities=group is not None, listed=public_groups is not None)
    most = _most_quantity(quantity, max_quantity, group)
    greatest = largest_size(max_group_size)
    private = greatest if isinstance(greatest, PrivateMaximum) else None
    smallest, largest = _size_range(min_group_size, greatest, public)
    terms = options.terms()
    engine = _engine(options.engine)
    mechanism = chosen_mechanism(options.mechanism)
    if isinstance(mechanism, HasLimit):
        mechanism.check_cells(hierarchy, largest - smallest + 1)
    statistics = mechanism.statistics(hierarchy, invariants=public)
    allowed = SIZES_STATISTICS | SORTED_STATISTICS if public == "groups" else SIZES_STATISTICS
    _check_statistics(mechanism, statistics, dict.fromkeys(hierarchy.levels, allowed))
    _check_cells(hierarchy, statistics, largest - smallest + 1, private)

    listed = None
    if options.budget_split == "auto" and public_groups is not None:
        listed = groups_of_leaves(public_groups, hierarchy, engine)

    def split(std_devs: Mapping[str, float], gaussian: bool) -> BudgetSplit:
        return auto_split(hierarchy, std_devs, gaussian=gaussian, groups_per_leaf=listed, cells=largest - smallest + 1)

    understatement = mechanism.understatement(hierarchy) if isinstance(mechanism, UnderstatesLoss) else {}
    plan = options.plan(
        budget,
        statistics,
        terms,
        hierarchy,
        max_quantity=effective_quantity(most, smallest, largest),
        understatement=understatement,
        maximum_share=None if private is None else private.share,
        auto_split=split,
    )
    caution = _published_calibration(mechanism, budget, plan) if understatement else caveat_of(mechanism)
    if caution is not None:
        warnings.warn(f"mechanism: {caution}", stacklevel=3)
    if options.ledger is not None and group is None and most > 1:
        raise ValueError(
            f"max_quantity: {most} is assumed of (leaf, size, groups) rows, not enforced, and a ledger adds up "
            "releases for records that add 1 to a size; give entity rows with quantity=, or leave the ledger out"
        )
    return GroupSizesJob(
        records=records,
        key=LeafKey(hierarchy, hierarchy.columns),
        group=_column(group, "group"),
        quantity=_column(quantity, "quantity"),
        max_quantity=most,
        size=_column(size, "size"),
        groups=_column(groups, "groups"),
        public_groups=public_groups,
        listed=listed,
        invariants=public,
        smallest=smallest,
        largest=largest,
        private_maximum=private,
        mechanism=mechanism,
        plan=plan,
        terms=terms,
        engine=engine,
        progress=options.progress,
        account=options.account("group_sizes", mechanism, plan, terms),
        caution=caution,
    )


def _counts_mechanism(given: Any) -> CountsMechanism:
    if given is None:
        return TopDown()
    if not isinstance(given, CountsMechanism) or not is_dataclass(type(given)):
        raise TypeError(f"mechanism: {given!r} must be one of tallytree.counts, for instance TopDown()")
    return given


def _check_statistics(mechanism: Any, wanted: Mapping[str, Statistic], allowed: Mapping[str, Set[Statistic]]) -> None:
    """Refuse a mechanism that wants something measured where its sensitivity would not hold."""
    for level, statistic in wanted.items():
        if statistic not in allowed.get(level, ()):
            raise ValueError(
                f"mechanism: {type(mechanism).__name__} wants {statistic!r} measured at {level!r}; "
                f"what can be measured there is {' or '.join(sorted(allowed.get(level, ()))) or 'nothing'}"
            )


def _ledger(given: Ledger | str | os.PathLike[str]) -> Ledger:
    return given if isinstance(given, Ledger) else Ledger(given)


def _engine(given: Any) -> Engine:
    if given is None:
        return Local()
    if not isinstance(given, Engine):
        raise TypeError(f"engine: {given!r} must be one of tallytree.engines, for instance Local()")
    return given


def _check_kind_of_rows(group: str | None, size: str | None, groups: str | None) -> None:
    if (group is None) == (size is None) or (size is None) != (groups is None):
        raise ValueError(
            "group: name either the column group, for one row per entity, or both size and groups, for "
            f"(leaf, size, groups) rows; got group={group!r}, size={size!r}, groups={groups!r}"
        )


def _public_numbers(invariants: str | None, *, entities: bool, listed: bool) -> Invariants:
    """Which numbers of groups are public; by default those that the caller can have meant to be."""
    if invariants is not None and invariants not in get_args(Invariants):
        raise ValueError(f'invariants: {invariants!r} is not known; choose "groups", "total" or "none"')
    if listed and not entities:
        raise ValueError("public_groups: (leaf, size, groups) rows state every group already; leave it out")
    if listed and invariants not in (None, "groups"):
        raise ValueError(
            f"public_groups: with invariants={invariants!r} the groups per leaf are private; leave the table out, or "
            'use invariants="groups"'
        )
    if entities and invariants == "groups" and not listed:
        raise ValueError(
            'public_groups: entity rows do not show groups without members, so invariants="groups" needs the public '
            'table of groups per leaf; give it, or keep the numbers of groups private with invariants="none"'
        )
    if invariants is None:
        return "none" if entities and not listed else "groups"
    return cast(Invariants, invariants)


def _most_quantity(quantity: str | None, max_quantity: int, group: str | None) -> int:
    most = integer(max_quantity, "max_quantity", least=1, most=10**6)
    if quantity is not None and group is None:
        raise ValueError(
            f"quantity: {quantity!r} is a column of entity rows; (leaf, size, groups) rows state sizes already. Leave "
            "it out; if a record can change a size by more than 1, give max_quantity alone"
        )
    if quantity is None and most > 1 and group is not None:
        raise ValueError(f"max_quantity: {most} cuts the column that quantity names; name it, or leave both out")
    return most


def _size_range(min_group_size: int, greatest: int | PrivateMaximum, public: Invariants) -> tuple[int, int]:
    """The least and the greatest size that is published; where the greatest is private, what it is at most."""
    given = integer(min_group_size, "min_group_size", least=0)
    smallest = given if public == "groups" else max(given, 1)
    if isinstance(greatest, PrivateMaximum):
        if smallest >= greatest.at_most:
            raise ValueError(
                f"at_most: {greatest.at_most} must be more than the least size that is published, {smallest}, or there "
                "is no size to tell apart; raise it, or lower min_group_size"
            )
        return smallest, greatest.at_most
    if given >= greatest and given > (0 if public == "groups" else 1):
        raise ValueError(f"min_group_size: {given} must be less than max_group_size, which is {greatest}")
    return smallest, greatest


def _check_cells(
    hierarchy: Hierarchy, statistics: Mapping[str, Statistic], sizes: int, private: PrivateMaximum | None
) -> None:
    """Refuse more cells than a machine holds, before anything is spent; sorted sizes are as many as there are groups.

    Raises:
        ValueError: naming what to lower.
    """
    nodes = sum(level_sizes(hierarchy)[level] for level, kind in statistics.items() if kind != "sorted_sizes")
    if nodes * sizes > MOST_CELLS:
        name = "max_group_size" if private is None else "max_group_size: at_most"
        raise ValueError(
            f"{name}: {sizes:,} sizes at {nodes:,} nodes are {nodes * sizes:,} cells to measure, more than "
            f"{MOST_CELLS:,}; lower it, since every size up to it is measured at every node"
        )


def _published_calibration(mechanism: SizesMechanism, budget: Budget, plan: NoisePlan) -> str:
    """What must be said of a calibration that understates the loss."""
    return (
        f"{type(mechanism).__name__} with its published calibration, which is wrong: what is published as epsilon = "
        f"{shown_up(budget.epsilon or 0)} truly spends epsilon = {shown_up(plan.spent['epsilon'])}. For reproducing "
        "the paper only; see docs/decisions/0011-chain.md."
    )


def _std_dev_alone(budget: Budget, bound: Sensitivity) -> float:
    """The standard deviation of a cell's noise, about, if a level had all of the budget."""
    if budget.epsilon is not None and budget.delta is None:
        return math.sqrt(2) * bound.l1 / float(budget.epsilon)
    return math.sqrt(bound.l2_squared / (2 * float(composable_budget(budget, "zcdp"))))


def _keys(tree: Hierarchy | Product) -> tuple[LeafKey, ...]:
    if isinstance(tree, Hierarchy):
        return (LeafKey(tree, tree.columns),)
    return tuple(LeafKey(attribute.hierarchy, attribute.columns) for attribute in tree.attributes)


def _alternately(first: str, n_first: int, second: str, n_second: int) -> Iterator[str]:
    """The two names in turn, each as often as it has columns; the rest alone."""
    for pair in zip_longest([first] * n_first, [second] * n_second):
        yield from (name for name in pair if name is not None)


def _column(name: str | None, argument: str) -> str | None:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"{argument}: {name!r} must be the name of a column")
    return name
