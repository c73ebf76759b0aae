"""From the arguments of group sizes to a planned release; no private data is opened."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import get_args

import numpy as np

from tallytree.accounting import NoisePlan
from tallytree.accounting.losses import shown_up
from tallytree.accounting.sensitivity import effective_quantity
from tallytree.budget import Budget, BudgetSplit
from tallytree.engines import Engine
from tallytree.hierarchy import Hierarchy, nodes_per_level
from tallytree.kinds.foreign import is_foreign
from tallytree.kinds.measurements import Statistic
from tallytree.kinds.terms import Invariants
from tallytree.run.arguments import SizesArguments
from tallytree.run.auto_bound import for_the_plan, sealed
from tallytree.run.counted_records import listed_counts
from tallytree.run.people import shares_beside
from tallytree.run.planned_sizes import PlannedSizes
from tallytree.run.planning import (
    account,
    check_statistics,
    chosen_engine,
    exact_statistics,
    noise_plan,
    warn_caller,
)
from tallytree.run.sizes_in_bands import check_memory
from tallytree.sizes import Joint, SizesMechanism
from tallytree.sizes.auto_split import auto_split
from tallytree.sizes.private_maximum import PrivateMaximum, largest_size
from tallytree.sources.addresses import published_name, published_private_name
from tallytree.sources.same_tables import refuse_private
from tallytree.support.arrays import IntArray
from tallytree.support.validate import choice, integer
from tallytree.trees.leaf_keys import leaf_keys

SIZES_STATISTICS: frozenset[Statistic] = frozenset(("tail_counts", "chain_tail_counts", "histogram"))

SORTED_STATISTICS: frozenset[Statistic] = frozenset(("sorted_sizes",))
"""What needs the number of groups of every node to be public, since it shows it."""

MAX_SIZES = 2**20
"""Cells of one node. Fitting takes some microseconds per cell, whether or not there are groups of such sizes."""

MAX_MEASURED_CELLS = 2**32
"""More cells take more than some 10 to 60 GB, depending on the mechanism."""


def plan_group_sizes(arguments: SizesArguments) -> PlannedSizes:
    """Plan a release of group sizes; see `tallytree.release_group_sizes`."""
    given, arguments = arguments, for_the_plan(arguments)
    hierarchy = arguments.hierarchy
    if not isinstance(hierarchy, Hierarchy):
        raise TypeError(f"hierarchy: {type(hierarchy).__name__} must be a tallytree.Hierarchy")
    _check_kind_of_rows(arguments)
    public = _public_numbers(arguments)
    _check_quantity(arguments)
    _check_person(arguments, public)
    greatest = largest_size(arguments.max_group_size)
    private = greatest if isinstance(greatest, PrivateMaximum) else None
    smallest, largest = _size_range(arguments.min_group_size, greatest, public)
    sizes = largest - smallest + 1
    engine = chosen_engine(arguments.engine, arguments.memory)
    mechanism, statistics = _chosen_mechanism(arguments, public, sizes, private, engine)
    refuse_private(arguments.public_groups, "public_groups", arguments.records, "records")
    asked = arguments
    if arguments.budget_split is None:
        asked = dataclasses.replace(arguments, budget_split=mechanism.default_split)
    listed = None if arguments.public_groups is None else _groups_per_leaf(arguments, engine)
    reasons: list[str] = []

    def split(std_devs: Mapping[str, float], gaussian: bool) -> BudgetSplit:
        chosen = auto_split(hierarchy, std_devs, gaussian=gaussian, groups_per_leaf=listed, cells=sizes)
        reasons.append(chosen.reason())
        return chosen.shares

    understatement = dict(mechanism.understatement(hierarchy))
    if understatement and is_foreign(mechanism):
        raise ValueError(
            f"mechanism: {type(mechanism).__name__} has an understatement, so it would spend more than the budget; "
            "take that method out of its class"
        )
    plan = noise_plan(
        asked,
        arguments.budget,
        statistics,
        hierarchy,
        auto_split=split,
        max_quantity=effective_quantity(arguments.max_quantity, smallest, largest),
        understatement=understatement,
        beside=shares_beside(arguments, None if private is None else private.share),
    )
    caution = _published_calibration(mechanism, arguments.budget, plan) if understatement else mechanism.caution
    if caution is not None:
        warn_caller(f"mechanism: {caution}")
    planned = PlannedSizes(
        statistic="group_sizes",
        arguments=arguments,
        tree=arguments.hierarchy,
        public_tree=arguments.hierarchy,
        table_names={
            "records": published_private_name(arguments.records),
            "public_groups": published_name(arguments.public_groups),
        },
        mechanism=mechanism,
        statistics=statistics,
        plan=plan,
        engine=engine,
        account=account(arguments, "group_sizes", mechanism, plan),
        invariants=public,
        smallest=smallest,
        largest=largest,
        private_maximum=private,
        caution=caution,
        listed=listed,
        reason_of_split=next(iter(reasons), None),
    )
    return sealed(planned, given)


def _groups_per_leaf(arguments: SizesArguments, engine: Engine) -> IntArray:
    """The public number of groups of every leaf, int64 (n_leaves,); a leaf that is not listed has none."""
    key = leaf_keys(arguments.hierarchy, arguments.leaf)[0]
    listed = listed_counts(engine, arguments.public_groups, (key,), "groups", "public_groups")
    groups = np.zeros(key.hierarchy.n_leaves, dtype=np.int64)
    groups[listed.parts[0]] = listed.counts
    return groups


def _chosen_mechanism(
    arguments: SizesArguments, public: Invariants, sizes: int, private: PrivateMaximum | None, engine: Engine
) -> tuple[SizesMechanism, dict[str, Statistic]]:
    """The mechanism, and what is measured for it.

    Raises:
        ValueError: it cannot hold so many cells, or wants something measured that cannot be.
        TypeError: not a mechanism for group sizes.
    """
    hierarchy, mechanism = arguments.hierarchy, SizesMechanism.chosen(arguments.mechanism, Joint())
    mechanism.check_cells(hierarchy, sizes)
    statistics = exact_statistics(mechanism.statistics(hierarchy, invariants=public))
    allowed = SIZES_STATISTICS | SORTED_STATISTICS if public == "groups" else SIZES_STATISTICS
    check_statistics(mechanism, statistics, dict.fromkeys(hierarchy.levels, allowed))
    _check_cells(hierarchy, statistics, sizes, private, arguments.memory)
    check_memory(mechanism, hierarchy, sizes, arguments.memory, arguments.noise, engine)
    return mechanism, statistics


def _check_kind_of_rows(arguments: SizesArguments) -> None:
    group, size, groups = arguments.group, arguments.size, arguments.groups
    if (group is None) == (size is None) or (size is None) != (groups is None):
        raise ValueError(
            "group: name either the column group, for one row per entity, or both size and groups, for "
            f"(leaf, size, groups) rows; got group={group!r}, size={size!r}, groups={groups!r}"
        )
    if group is None and arguments.period_column is not None:
        raise ValueError(
            f"period_column: {arguments.period_column!r} says when a record was, and (leaf, size, groups) rows are not "
            "records; leave it out, or give entity rows (group)"
        )


def _public_numbers(arguments: SizesArguments) -> Invariants:
    """Which numbers of groups are public; by default those that the caller can have meant to be."""
    invariants = arguments.invariants
    entities, listed = arguments.group is not None, arguments.public_groups is not None
    if invariants is not None:
        choice(invariants, "invariants", get_args(Invariants))
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
    return invariants


def _check_quantity(arguments: SizesArguments) -> None:
    """Refuse quantities that do not go with the kind of rows, or with a ledger."""
    quantity, most, entities = arguments.quantity, arguments.max_quantity, arguments.group is not None
    if quantity is not None and not entities:
        raise ValueError(
            f"quantity: {quantity!r} is a column of entity rows; (leaf, size, groups) rows state sizes already. Leave "
            "it out; if a record can change a size by more than 1, give max_quantity alone"
        )
    if quantity is None and most > 1 and entities:
        raise ValueError(f"max_quantity: {most} cuts the column that quantity names; name it, or leave both out")
    if arguments.ledger is not None and not entities and most > 1:
        raise ValueError(
            f"max_quantity: {most} is assumed of (leaf, size, groups) rows, not enforced, and a ledger adds up "
            "releases for records that add 1 to a size; give entity rows with quantity=, or leave the ledger out"
        )


def _check_person(arguments: SizesArguments, public: Invariants) -> None:
    """Refuse a column of people where it enforces nothing, or where what is public would show what it leaves out.

    Raises:
        ValueError: rows that are not of people; the total number of groups is public; a column that has another use.
    """
    person = arguments.person
    if person is None:
        return
    if arguments.group is None:
        raise ValueError(
            f"person: {person!r} names people of entity rows; (leaf, size, groups) rows say nothing of people, so no "
            "bound on their memberships can be enforced. Give entity rows with group=, or leave person out, and "
            "max_contributions is assumed"
        )
    if public == "total":
        raise ValueError(
            'invariants: "total" publishes how many groups have members, which depends on which memberships of one '
            'person count, so it does not go with person; choose "none", or "groups" with public_groups'
        )
    for name in ("group", "quantity"):
        if person == getattr(arguments, name):
            raise ValueError(f"person: {person!r} is the column of {name} too; name the column with the ids of people")
    if person in (*arguments.hierarchy.columns, arguments.leaf):
        raise ValueError(
            f"person: {person!r} is a column of the hierarchy, whose values are public; name the column with the "
            "ids of people"
        )


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
    hierarchy: Hierarchy,
    statistics: Mapping[str, Statistic],
    sizes: int,
    private: PrivateMaximum | None,
    memory: str | None,
) -> None:
    """Refuse more cells than a machine holds, before anything is spent; sorted sizes are as many as there are groups.

    With `memory`, `check_memory` says what fits.

    Raises:
        ValueError: naming what to lower.
    """
    name = "max_group_size" if private is None else "max_group_size: at_most"
    nodes = sum(nodes_per_level(hierarchy)[level] for level, kind in statistics.items() if kind != "sorted_sizes")
    if nodes and sizes > MAX_SIZES:
        raise ValueError(
            f"{name}: {sizes:,} sizes are {sizes:,} cells to measure at every node, more than {MAX_SIZES:,}; lower it, "
            "or use a coarser unit of size"
        )
    if memory is None and nodes * sizes > MAX_MEASURED_CELLS:
        raise ValueError(
            f"{name}: {sizes:,} sizes at {nodes:,} nodes are {nodes * sizes:,} cells to measure, more than "
            f"{MAX_MEASURED_CELLS:,}; lower it, since every size up to it is measured at every node, or give memory="
        )


def _published_calibration(mechanism: SizesMechanism, budget: Budget, plan: NoisePlan) -> str:
    """What must be said of a calibration that understates the loss."""
    return (
        f"{type(mechanism).__name__} with its published calibration, which is wrong: what is published as epsilon = "
        f"{shown_up(budget.epsilon or 0)} truly spends epsilon = {shown_up(plan.spent['epsilon'])}. For reproducing "
        "the paper only; see docs/decisions/0011-chain.md."
    )
