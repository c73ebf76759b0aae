"""From the arguments of tables to a planned release; no private data is opened."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tallytree.accounting.sensitivity import sensitivity
from tallytree.budget import exact, shares
from tallytree.engines import Engine
from tallytree.kinds.foreign import is_foreign, refuse_in_bands
from tallytree.kinds.measurements import Statistic
from tallytree.product import Product
from tallytree.run.arguments import TablesArguments
from tallytree.run.auto_bound import for_the_plan, sealed
from tallytree.run.counted_records import listed_counts
from tallytree.run.people import shares_beside
from tallytree.run.plan_counts import check_person
from tallytree.run.planned_tables import CELL_BYTES, MAX_RECORDS_OF_TABLES, PlannedTables, bytes_at_once
from tallytree.run.planning import account, chosen_engine, noise_plan, std_dev_alone, warn_beyond_machine
from tallytree.run.prior import prior_name
from tallytree.run.read_prior import prior_of_tables, truncated
from tallytree.run.workspace import require_fits
from tallytree.sources.addresses import published_name, published_private_name
from tallytree.sources.locate import locate
from tallytree.sources.reading import column_names
from tallytree.sources.same_tables import refuse_private
from tallytree.support.machine import available_threads
from tallytree.support.validate import safe_text
from tallytree.tables import LeastSquares, PublicTotals, Table, TableLayout, TablesMechanism
from tallytree.tables.choosing import follows, helpful_tables, shares_for
from tallytree.tables.layout import levels_of, refuse_strangers, shown_tables, sizes_of, table_of, tables_of
from tallytree.trees.leaf_keys import LeafKey, leaf_keys

LEAST_WISH, MOST_WISH = 1e-6, 1e12
"""Standard deviations that can be wished for."""

LEAST_ALONE, MOST_ALONE = 1e-20, 1e20
"""Bounds of a standard deviation that shares are chosen by, so that its square is a number. What is drawn is less than
1e10 (the plan refuses more), and less than 1e-3 is no noise."""

AREA_BYTES, LEAST_MEMORY = 150, 10**9
"""What a run with `memory` takes in any case: for each finest area, and for what is worked on at once, about."""


def plan_tables(arguments: TablesArguments) -> PlannedTables:
    """Plan a release of tables; see `tallytree.release_tables`."""
    given, arguments = arguments, for_the_plan(arguments)
    product = _checked(arguments.hierarchy)
    published = tables_of(product, arguments.tables, "tables")
    mechanism = TablesMechanism.chosen(arguments.mechanism, LeastSquares())
    check_person(arguments, leaf_keys(product, arguments.leaf, arguments.on_unknown))
    engine = chosen_engine(arguments.engine, arguments.memory)
    if arguments.public_totals is not None:
        _check_totals(arguments)
    totals_depth = None if arguments.public_totals is None else _totals_depth(arguments.public_totals, product)
    exact_above = 0 if totals_depth is None and arguments.total_is_public else totals_depth
    split = _by_name(product, arguments.budget_split, "budget_split")
    asked = dataclasses.replace(arguments, budget_split="even" if split is None else split)
    layout, share = _chosen(asked, published, exact_above, totals_depth)
    prior = None
    if mechanism.takes_prior and not is_foreign(mechanism):  # one from outside is given measurements alone
        prior = prior_of_tables(asked, layout)
    elif asked.prior is not None:
        raise ValueError(
            f"prior: {mechanism!r} takes none; leave it out, or take tallytree.tables.LeastSquares() with its defaults"
        )
    _check_memory(mechanism, layout, asked)
    if layout.areas_differ and asked.public_totals is not None:
        raise ValueError(
            "public_totals: they cannot be met for certain where areas have impossible cells of their own; leave out "
            "public_totals, or the levels of the areas in impossible"
        )
    statistics = {name: statistic_of(layout, depth, asked) for depth, name in enumerate(layout.levels) if name in share}
    plan = noise_plan(
        asked,
        asked.budget,
        statistics,
        layout,
        auto_split=lambda std_devs, gaussian: share,
        beside=shares_beside(asked),
    )
    totals = asked.public_totals
    planned = PlannedTables(
        statistic="tables",
        arguments=asked,
        tree=layout,
        public_tree=product,
        table_names={
            "records": published_private_name(asked.records),
            **({} if totals is None else {"public_totals": published_name(totals)}),
            **({} if asked.prior is None else {"prior": prior_name(asked.prior)}),
        },
        mechanism=mechanism,
        statistics=statistics,
        plan=plan,
        engine=engine,
        account=account(asked, "tables", mechanism, plan),
        totals=None if totals_depth is None else _public_totals(totals, layout, totals_depth, engine),
        totals_level=None if totals_depth is None else product.attributes[0].columns[totals_depth - 1],
        prior=prior,
    )
    largest = max(layout.levels, key=lambda name: layout.size(layout.levels.index(name)))
    if asked.memory is None:
        remedy = f"the table {largest!r} takes most of it; give memory (--memory), or coarser tables"
        warn_beyond_machine(planned.expected_bytes, remedy)
    return sealed(planned, given)


def _check_memory(mechanism: TablesMechanism, layout: TableLayout, arguments: TablesArguments) -> None:
    """Refuse a run with `memory` that could not keep to it, from public facts.

    Raises:
        ValueError: the mechanism is from outside; or what is asked for is in memory.
    """
    if arguments.memory is None:
        return
    refuse_in_bands(mechanism)
    if arguments.noise == "opendp":
        raise ValueError(
            'memory: with noise="opendp" every cell that was drawn is kept in memory; leave memory out, or use '
            'noise="keyed"'
        )
    for name in ("keep_detail", "prior", "revises"):
        if getattr(arguments, name, None):
            raise ValueError(f"memory: tables with {name} are worked on in memory; leave one of the two out")
    if layout.areas_differ:
        raise ValueError(
            "memory: tables whose impossible cells differ between areas are worked on in memory; leave memory out, or "
            "the levels of the areas in impossible"
        )
    # Each processor works on a family at a time.
    families = [(int(np.diff(family).max()), len(family) - 1) for family in layout.families]
    largest, number = max(families, default=(1, 1))
    at_once = CELL_BYTES * largest * layout.detail.cells * min(number, available_threads())
    remedy = (
        f"{largest:,} areas of one above are worked on at once; give more memory, or name a table of a level between"
        if at_once > LEAST_MEMORY
        else "that is the least for tables of this size; give more memory"
    )
    least = LEAST_MEMORY + AREA_BYTES * layout.areas_per_level[-1] + at_once
    require_fits(arguments.memory, min(bytes_at_once(layout), least), remedy)


def _checked(product: object) -> Product:
    """The product, once it has no order and hierarchies with names of their own.

    Raises:
        ValueError: it has an order.
        TypeError: not a product.
    """
    if not isinstance(product, Product):
        raise TypeError(
            f"hierarchy: {safe_text(product)} must be a tallytree.Product without an order, such as "
            'tallytree.Product({"area": areas, "sex": sexes}), the areas first'
        )
    if product.ordered:
        raise ValueError(
            "hierarchy: the Product has an order, which makes it a tree for tallytree.release_counts; leave the order "
            "out for tables"
        )
    return product


def _is_exact(product: Product, table: Table, exact_above: int | None) -> bool:
    """Whether a table has totals of areas that are public."""
    areas, *attributes = sizes_of(product, table)
    return (
        exact_above is not None
        and max(attributes, default=1) == 1
        and (areas <= product.attributes[0].size(exact_above))
    )


def statistic_of(layout: TableLayout, depth: int, arguments: TablesArguments) -> Statistic:
    """What a table is measured as; see `accounting.sensitivity`."""
    if layout.size(depth) == 1:
        return "total"
    return "distinct_counts" if arguments.distinct and layout.is_finest(depth) else "counts"


def _by_name(product: Product, given: Any, argument: str) -> Any:
    """Numbers by table, with the tables' names as keys; anything that is no mapping as it is."""
    if not isinstance(given, Mapping):
        return given
    refuse_strangers(product, given, argument)
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = table_of(product, key, argument).name
        if name in found:
            raise ValueError(f"{argument}: the table {shown_tables([name])[0]!r} is named twice; name each table once")
        found[name] = value
    return found


def _chosen(
    arguments: TablesArguments, published: Sequence[Table], exact_above: int | None, totals_depth: int | None
) -> tuple[TableLayout, dict[str, Fraction]]:
    """The tables, published ones first, and the share of the budget of each that is measured."""
    product, split, auto = arguments.hierarchy, arguments.budget_split, arguments.budget_split == "auto"
    if arguments.precision is not None and not auto:
        raise ValueError('precision: it decides the shares with budget_split="auto"; leave it out beside other shares')
    if arguments.measure is not None:
        asked = list(tables_of(product, arguments.measure, "measure"))
    elif isinstance(split, Mapping):
        asked = [table_of(product, levels, "budget_split") for levels in map(levels_of, split)]
    else:
        asked = [*published, *(helpful_tables(product, published) if auto else ())]
    _refuse_twins(product, asked)
    noisy = [table for table in asked if not _is_exact(product, table, exact_above)]
    if not noisy:
        raise ValueError("tables: all of them are exact totals, so that nothing is measured; name a finer table")
    for table in published:
        if not _is_exact(product, table, exact_above) and not any(follows(product, table, each) for each in noisy):
            raise ValueError(
                f"{'measure' if arguments.measure is not None else 'budget_split'}: the published table "
                f"{table.name!r} does not follow from what is measured; measure it too, or a finer table"
            )
    layout = _layout(product, published, noisy, totals_depth)
    names = [layout.name_of(table) for table in noisy]
    if not auto:
        shown = dict(zip(names, shown_tables(names), strict=True))
        weights: Any = split
        if isinstance(split, Mapping):
            weights = {shown.get(name, name): each for name, each in split.items()}
        return layout, dict(zip(names, shares(weights, [*shown.values()]).values(), strict=True))
    found = shares_for(
        layout,
        names,
        wishes=wishes_of(arguments, layout),
        std_devs={name: _std_dev_alone(arguments, layout, name) for name in names},
        gaussian=arguments.budget.kind != "pure",
        exact_level=None if exact_above is None else layout.area_level_at(exact_above),
        keep_all=arguments.measure is not None,
    )
    kept = [table for table, name in zip(noisy, names, strict=True) if name in found]
    return _layout(product, published, kept, totals_depth), found


def _refuse_twins(product: Product, asked: Sequence[Table]) -> None:
    """Refuse two tables with the same cells among those that are measured.

    Raises:
        ValueError: there are some.
    """
    seen: dict[tuple[int, ...], str] = {}
    for table in asked:
        twin = seen.setdefault(sizes_of(product, table), table.name)
        if twin != table.name:
            raise ValueError(f"budget_split: {twin!r} and {table.name!r} have the same cells; name one of them")


def _layout(
    product: Product, published: Sequence[Table], measured: Sequence[Table], totals_depth: int | None
) -> TableLayout:
    """The published tables, then those that are measured only."""
    known = {sizes_of(product, table) for table in published}
    others = [table for table in measured if sizes_of(product, table) not in known]
    return TableLayout(product, [*published, *others], len(published), totals_depth or 0)


def wishes_of(arguments: TablesArguments, layout: TableLayout) -> dict[str, float]:
    """The wanted standard deviation of every published table."""
    published = layout.levels[: layout.asked]
    if arguments.precision is None:
        return dict.fromkeys(published, 1.0)
    if isinstance(arguments.precision, Mapping) and not arguments.precision:
        raise ValueError("precision: it is empty; give a standard deviation by table, or leave it out")
    if not isinstance(arguments.precision, Mapping):
        raise TypeError(
            f'precision: {safe_text(arguments.precision)} must be a mapping such as {{("county", "sex"): 10.0}}'
        )
    given: dict[str, float] = {}
    for name, wanted in _by_name(arguments.hierarchy, arguments.precision, "precision").items():
        table = table_of(arguments.hierarchy, levels_of(name), "precision")
        place = layout.place(table)
        if place is None or place >= layout.asked:
            raise ValueError(
                f"precision: the table {shown_tables([name])[0]!r} is not asked for; the tables are "
                f"{', '.join(shown_tables(published))}"
            )
        value, name = float(exact(wanted, "precision")), shown_tables([name])[0]
        if value <= 0:
            raise ValueError(f"precision: {value} of {name!r} must be greater than 0, a standard deviation")
        if not LEAST_WISH <= value <= MOST_WISH:
            raise ValueError(f"precision: {value} of {name!r} must be between {LEAST_WISH:g} and {MOST_WISH:g}")
        given[published[place]] = value
    return dict.fromkeys(published, max(given.values())) | given


def _std_dev_alone(arguments: TablesArguments, layout: TableLayout, name: str) -> float:
    """The standard deviation of a cell's noise, if the table had all of the budget."""
    statistic = statistic_of(layout, layout.levels.index(name), arguments)
    alone = std_dev_alone(arguments.budget, sensitivity(statistic, arguments.relation, arguments.bound))
    return min(max(alone, LEAST_ALONE), MOST_ALONE)


def _check_totals(arguments: TablesArguments) -> None:
    """Refuse public totals where no two neighboring data sets have the same, or that are the private table.

    Raises:
        ValueError: they do not go with the neighboring relation, or are the private records.
    """
    if arguments.relation != "change_one":
        raise ValueError(
            'public_totals: with neighboring="add_remove" the presence of a person is protected, and every total tells '
            'it; leave the totals out, or protect what a person has with neighboring="change_one"'
        )
    checked = arguments.checked_period is not None
    if arguments.person is not None or arguments.on_unknown == "drop" or checked:
        which = "period_column" if checked else "person" if arguments.person is not None else 'on_unknown="drop"'
        raise ValueError(
            f"public_totals: they are of all records, and {which} leaves records out, so that the tables would be "
            "fitted to totals that are not theirs; leave public_totals out, or count every record"
        )
    refuse_private(arguments.public_totals, "public_totals", arguments.records, "records")


def _totals_depth(given: Any, product: Product) -> int:
    """How many columns of the areas a public table of totals has: those of a level and of all above it."""
    side = product.attributes[0]
    names = set(column_names(locate(given, "public_totals", (), public=True), "public_totals"))
    depths = [depth for depth, column in enumerate(side.columns, 1) if column in names]
    if not depths:
        raise ValueError(
            f"public_totals: it has no column of the areas; it needs {side.columns[0]!r}, or the columns down to a "
            "finer level, and 'count'"
        )
    return depths[-1]


def _public_totals(given: Any, layout: TableLayout, depth: int, engine: Engine) -> PublicTotals:
    """The public totals of all areas of a level, in order."""
    side = layout.product.attributes[0]
    hierarchy = truncated(side, depth)
    key = LeafKey(hierarchy, hierarchy.columns)
    listed = listed_counts(engine, given, (key,), "count", "public_totals")
    if int(listed.counts.sum()) > MAX_RECORDS_OF_TABLES:
        raise ValueError("public_totals: they add up to more than 2^50; use a coarser unit")
    totals = np.zeros(side.size(depth), dtype=np.int64)
    totals[listed.parts[0]] = listed.counts
    return PublicTotals(layout.area_level_at(depth), totals)
