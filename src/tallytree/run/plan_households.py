"""From the arguments of persons and households to a planned release; no private data is opened.

It is a composition of two releases under one budget: tables of persons (`plan_tables`), and the persons by rank of
every area. One `NoisePlan` has all that is measured. So the two parts are accounted for together, in every kind of
budget, and every measurement has a name, and its noise an address, of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tallytree.accounting import NoisePlan, Plan, plan_noise
from tallytree.accounting.scales import next_float, representable
from tallytree.accounting.sensitivity import sensitivity
from tallytree.hierarchy import Hierarchy
from tallytree.kinds.columns import MEMBER_COLUMNS
from tallytree.kinds.foreign import is_foreign
from tallytree.kinds.terms import options_of
from tallytree.product import Product
from tallytree.release.households_release import IN_HOUSEHOLD, IN_OR_OUTSIDE, area_tables
from tallytree.run.arguments import HouseholdsArguments, TablesArguments
from tallytree.run.options import SharedArguments
from tallytree.run.plan_tables import plan_tables
from tallytree.run.planned_households import PartLevels, PlannedHouseholds, size_level
from tallytree.run.planning import account, std_dev_alone
from tallytree.sizes.auto_split import ChosenSplit, auto_split
from tallytree.sizes.mechanism import measured_depths
from tallytree.sources.addresses import published_private_name
from tallytree.support.validate import safe_text
from tallytree.tables.layout import sizes_of, table_of
from tallytree.trees.unknown_leaves import with_unknown_leaves

MOST_CELLS = 2**28
"""Persons by rank of all areas, which are held in memory as several arrays of 8 bytes."""


def plan_households(arguments: HouseholdsArguments) -> PlannedHouseholds:
    """Plan a release of persons and households; see `tallytree.release_households`."""
    given = with_unknown_leaves(_checked(arguments.hierarchy), arguments.on_unknown)
    _check_columns(arguments, given)
    if is_foreign(arguments.mechanism):
        raise ValueError(
            f"mechanism: {type(arguments.mechanism).__name__} is from outside, and no such mechanism releases persons "
            "and households; leave it out, or give one of tallytree.tables"
        )
    product = given.with_attribute(IN_HOUSEHOLD, IN_OR_OUTSIDE)
    product.words = {IN_HOUSEHOLD: {"": "in households"}, **product.words}
    side = product.attributes[0]
    areas = side.hierarchy
    largest = arguments.max_household_size
    _check_cells(areas, largest)
    shared = options_of(arguments, SharedArguments)
    persons = plan_tables(
        TablesArguments(
            arguments.records,
            product,
            arguments.budget,
            tables=_with_everybody(arguments.asked_tables, product),
            person=arguments.person,
            precision=arguments.precision,
            mechanism=arguments.mechanism,
            keep_detail=arguments.keep_detail,
            **{**shared, "budget_split": arguments.budget_split},
        )
    )
    split = _split_of_sizes(arguments, areas, largest)
    plan = _plan_of_both(arguments, persons.plan, split)
    of_persons = {name: plan.levels[name] for name in persons.plan.levels}
    planned = PlannedHouseholds(
        statistic="households",
        arguments=arguments,
        tree=PartLevels(persons.tree, areas),
        public_tree=product,
        table_names={"records": published_private_name(arguments.records)},
        mechanism=persons.mechanism,
        statistics={name: each.statistic for name, each in plan.levels.items()},
        plan=plan,
        engine=persons.engine,
        account=account(arguments, "households", persons.mechanism, plan),
        persons=dataclasses.replace(
            persons, plan=dataclasses.replace(plan, levels=of_persons), account=None, table_names={}
        ),
        prior=persons.prior,
        given=given,
        reason_of_split=split.reason(),
    )
    return planned.seal()


def _checked(given: object) -> Product:
    """The areas and the attributes as a product without an order.

    Raises:
        ValueError: it has an order.
        TypeError: neither a hierarchy nor a product.
    """
    if isinstance(given, Hierarchy):
        return Product({"area": given})
    if not isinstance(given, Product):
        raise TypeError(
            f"hierarchy: {safe_text(given)} must be a tallytree.Hierarchy of areas, or a tallytree.Product without an "
            'order, such as tallytree.Product({"area": areas, "sex": sexes}), the areas first'
        )
    if given.ordered:
        raise ValueError(
            "hierarchy: the Product has an order, which makes it a tree for tallytree.release_counts; leave the order "
            "out for persons and households"
        )
    return given


def _check_columns(arguments: HouseholdsArguments, given: Product) -> None:
    """Refuse names that the published tables need, and a column of households that has another use.

    Raises:
        ValueError: one of them is a level's, or an attribute's.
    """
    columns = [column for side in given.attributes for column in side.columns]
    taken = {IN_HOUSEHOLD, *MEMBER_COLUMNS}
    for name in (*columns, *given.attributes[0].hierarchy.columns, *(side.name for side in given.attributes)):
        if name.casefold() in taken:
            raise ValueError(f"hierarchy: {name!r} is a column of the published tables; rename the level or attribute")
    codes = arguments.leaf.values() if isinstance(arguments.leaf, Mapping) else [arguments.leaf]
    if arguments.household in (*columns, *codes):
        raise ValueError(
            f"household: {arguments.household!r} is a column of the hierarchy, whose values are public; name the "
            "column with the ids of households"
        )


def _check_cells(areas: Hierarchy, largest: int) -> None:
    """Refuse more persons by rank than fit in memory, before anything is spent.

    Raises:
        ValueError: naming what to lower.
    """
    cells = sum(areas.size(depth) for depth in range(len(areas.levels))) * (largest + 1)
    if cells > MOST_CELLS:
        raise ValueError(
            f"max_household_size: {largest:,} sizes of all areas are {cells:,} cells, more than {MOST_CELLS:,}; lower "
            "it, or use larger areas"
        )


def _with_everybody(asked: Sequence[object], product: Product) -> list[object]:
    """The tables that are asked for, and every area level by persons in households and outside."""
    tables = [*asked]
    known = {sizes_of(product, table_of(product, each, "tables")) for each in asked}
    for levels in area_tables(product.attributes[0]):
        cells = sizes_of(product, table_of(product, levels, "tables"))
        if cells not in known:
            known.add(cells)
            tables.append(levels)
    return tables


def _split_of_sizes(arguments: HouseholdsArguments, areas: Hierarchy, largest: int) -> ChosenSplit:
    """The shares of the measured levels of households by size among themselves, from public facts."""
    bound = sensitivity("persons_by_rank", arguments.relation, arguments.bound)
    alone = std_dev_alone(arguments.budget, bound)
    std_devs = {areas.levels[depth]: alone for depth in measured_depths(areas)}
    return auto_split(areas, std_devs, gaussian=arguments.budget.kind != "pure", cells=largest)


def _plan_of_both(arguments: HouseholdsArguments, persons: Plan, sizes: ChosenSplit) -> NoisePlan:
    """One plan of the noise of both parts.

    Raises:
        ValueError: a measurement of persons and one of sizes have one name.
    """
    bound = sensitivity("persons_by_rank", arguments.relation, arguments.bound)
    share = arguments.sizes_share
    bounds = {name: (each.statistic, each.sensitivity) for name, each in persons.levels.items()}
    split = {name: (1 - share) * each.share for name, each in persons.levels.items()}
    for level, of_level in sizes.shares.items():
        name = size_level(level)
        if name in bounds:
            raise ValueError(f"hierarchy: a table of persons would be named {name!r} too; rename the level {level!r}")
        bounds[name] = "persons_by_rank", bound
        split[name] = share * of_level
    grid = next_float if arguments.noise == "opendp" else representable
    return plan_noise(arguments.budget, bounds, split, arguments.accounting, grid)
