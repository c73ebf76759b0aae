"""From the arguments of group sizes to a planned job."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, cast, get_args

from tallytree.accounting import NoisePlan
from tallytree.accounting.amounts import shown_up
from tallytree.accounting.sensitivity import effective_quantity
from tallytree.budget import Budget, BudgetSplit
from tallytree.hierarchy import Hierarchy, nodes_per_level
from tallytree.measurements import Statistic
from tallytree.pipeline.options import Options, check_statistics, checked_column, chosen_engine
from tallytree.pipeline.sizes_job import GroupSizesJob, groups_of_leaves
from tallytree.private.tabulate.records import LeafKey
from tallytree.sizes import Joint, SizesMechanism
from tallytree.sizes.auto_split import auto_split
from tallytree.sizes.private_maximum import PrivateMaximum, largest_size
from tallytree.terms import Invariants
from tallytree.validate import integer

SIZES_STATISTICS: frozenset[Statistic] = frozenset(("tail_counts", "chain_tail_counts", "histogram"))

SORTED_STATISTICS: frozenset[Statistic] = frozenset(("sorted_sizes",))
"""What needs the number of groups of every node to be public, since it shows it."""

MAX_MEASURED_CELLS = 2**32
"""More cells take more than some 10 to 60 GB, depending on the mechanism."""


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
    if options.person is not None:
        raise ValueError(f"person: {options.person!r} is about counts and flows; group sizes assume max_contributions")
    terms = options.terms()
    engine = chosen_engine(options.engine)
    mechanism = SizesMechanism.chosen(options.mechanism, Joint())
    mechanism.check_cells(hierarchy, largest - smallest + 1)
    statistics = mechanism.statistics(hierarchy, invariants=public)
    allowed = SIZES_STATISTICS | SORTED_STATISTICS if public == "groups" else SIZES_STATISTICS
    check_statistics(mechanism, statistics, dict.fromkeys(hierarchy.levels, allowed))
    _check_cells(hierarchy, statistics, largest - smallest + 1, private)

    listed = None
    if options.budget_split == "auto" and public_groups is not None:
        listed = groups_of_leaves(public_groups, hierarchy, engine)

    def split(std_devs: Mapping[str, float], gaussian: bool) -> BudgetSplit:
        return auto_split(hierarchy, std_devs, gaussian=gaussian, groups_per_leaf=listed, cells=largest - smallest + 1)

    understatement = mechanism.understatement(hierarchy)
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
    caution = _published_calibration(mechanism, budget, plan) if understatement else mechanism.caution
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
        group=checked_column(group, "group"),
        quantity=checked_column(quantity, "quantity"),
        max_quantity=most,
        size=checked_column(size, "size"),
        groups=checked_column(groups, "groups"),
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
    nodes = sum(nodes_per_level(hierarchy)[level] for level, kind in statistics.items() if kind != "sorted_sizes")
    if nodes * sizes > MAX_MEASURED_CELLS:
        name = "max_group_size" if private is None else "max_group_size: at_most"
        raise ValueError(
            f"{name}: {sizes:,} sizes at {nodes:,} nodes are {nodes * sizes:,} cells to measure, more than "
            f"{MAX_MEASURED_CELLS:,}; lower it, since every size up to it is measured at every node"
        )


def _published_calibration(mechanism: SizesMechanism, budget: Budget, plan: NoisePlan) -> str:
    """What must be said of a calibration that understates the loss."""
    return (
        f"{type(mechanism).__name__} with its published calibration, which is wrong: what is published as epsilon = "
        f"{shown_up(budget.epsilon or 0)} truly spends epsilon = {shown_up(plan.spent['epsilon'])}. For reproducing "
        "the paper only; see docs/decisions/0011-chain.md."
    )
