"""From the arguments of counts and flows to a planned job."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from tallytree.accounting import Plan, plan_stability
from tallytree.accounting.scales import next_float, representable
from tallytree.accounting.sensitivity import sensitivity
from tallytree.budget import Budget, BudgetSplit, shares
from tallytree.counts import CountsMechanism, LeastSquares
from tallytree.counts.auto_split import auto_split
from tallytree.counts.mechanism import in_place_of_counts
from tallytree.hierarchy import Hierarchy, check_level_names, nodes_per_level
from tallytree.measurements import Statistic
from tallytree.pipeline.counts_job import CountsJob
from tallytree.pipeline.options import Options, check_statistics, checked_column, chosen_engine
from tallytree.private.tabulate.records import LeafKey
from tallytree.product import Product, check_columns
from tallytree.terms import Terms

ROOT_STATISTICS: frozenset[Statistic] = frozenset(("total",))
COUNTS_STATISTICS: frozenset[Statistic] = frozenset(("counts",))
STABLE_STATISTICS: frozenset[Statistic] = frozenset(("stable_counts",))
"""What is published above a threshold, by mechanisms that measure nothing else."""


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
        raise TypeError(
            f"hierarchy: {type(hierarchy).__name__} must be a tallytree.Hierarchy or a tallytree.Product; make one "
            "with tallytree.Hierarchy.from_table(leaves, levels=[…])"
        )
    terms = options.terms()
    mechanism = CountsMechanism.chosen(options.mechanism, LeastSquares())
    statistics = mechanism.statistics(hierarchy, total_is_public=terms.total_is_public)
    keys, count = _keys(hierarchy), checked_column(count, "count")
    _check_person(terms.person, keys, count)
    plan = _plan(mechanism, statistics, budget, options, terms, hierarchy)
    caution = mechanism.caution
    if caution is not None:
        warnings.warn(f"mechanism: {caution}", stacklevel=3)
    return CountsJob(
        records=records,
        tree=hierarchy,
        keys=keys,
        count=count,
        mechanism=mechanism,
        plan=plan,
        terms=terms,
        engine=chosen_engine(options.engine),
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
    check_columns(origins, columns["origin"], "origin")
    check_columns(destinations, columns["destination"], "destination")
    for column in sorted(set(columns["origin"]) & set(columns["destination"])):
        raise ValueError(f"destination: {column!r} is a column of origin too; each side has columns of its own")
    first, second = ("destination", "origin") if tree == "destination" else ("origin", "destination")
    order = list(_alternately(first, len(columns[first]), second, len(columns[second])))
    product = Product({"origin": origins, "destination": destinations}, order=order, columns=columns)
    return counts_job(trips, product, budget, options, count=count, argument="trips", statistic="flows")


def _plan(
    mechanism: CountsMechanism,
    statistics: Mapping[str, Statistic],
    budget: Budget,
    options: Options,
    terms: Terms,
    tree: Hierarchy | Product,
) -> Plan:
    """The noise of every measured level, and a threshold where the mechanism publishes only what is above one."""
    root, *below = tree.levels
    leaf = tree.levels[-1]
    if list(statistics.values()) != ["stable_counts"]:
        check_statistics(mechanism, statistics, {root: ROOT_STATISTICS} | dict.fromkeys(below, COUNTS_STATISTICS))
        sizes = nodes_per_level(tree)

        def split(std_devs: Mapping[str, float], gaussian: bool) -> BudgetSplit:
            return auto_split(
                [sizes[level] for level in std_devs],
                std_devs,
                gaussian=gaussian,
                root_is_public=root not in statistics,
                upward=mechanism.corrects_upward,
            )

        measured = in_place_of_counts(statistics, tree, distinct=terms.distinct)
        return options.plan(budget, measured, terms, tree, auto_split=split)
    check_statistics(mechanism, statistics, {leaf: STABLE_STATISTICS})
    if options.budget_split != "auto":
        shares(options.budget_split, [leaf])
    m = terms.max_contributions
    bound = sensitivity("stable_counts", terms.neighboring, m)
    grid = next_float if terms.noise == "opendp" else representable
    return plan_stability(budget, leaf, bound, m, options.accounting, grid)


def _keys(tree: Hierarchy | Product) -> tuple[LeafKey, ...]:
    if isinstance(tree, Hierarchy):
        return (LeafKey(tree, tree.columns),)
    return tuple(LeafKey(attribute.hierarchy, attribute.columns) for attribute in tree.attributes)


def _check_person(person: str | None, keys: Sequence[LeafKey], count: str | None) -> None:
    """Refuse a column of people that is used for something else too: its values would not name people.

    Raises:
        ValueError: it is a column of a path, or the one with the numbers of records.
    """
    if person is None:
        return
    if any(person in key.columns for key in keys):
        raise ValueError(
            f"person: {person!r} is a column of the hierarchy, whose values are public; name the column with the "
            "ids of people"
        )
    if person == count:
        raise ValueError(f"person: {person!r} is the column of count too; name the column with the ids of people")


def _alternately(first: str, n_first: int, second: str, n_second: int) -> Iterator[str]:
    """The two names in turn, each as often as it has columns; the rest alone."""
    for pair in zip_longest([first] * n_first, [second] * n_second):
        yield from (name for name in pair if name is not None)
