"""From the arguments of counts and flows to a planned job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from itertools import zip_longest
from typing import Any

from tallytree.budget import Budget
from tallytree.counts import CountsMechanism, TopDown
from tallytree.counts.mechanism import in_place_of_counts
from tallytree.hierarchy import Hierarchy, check_level_names
from tallytree.jobs import CountsJob
from tallytree.measurements import Statistic
from tallytree.planning.options import Options, check_statistics, checked_column, chosen_engine
from tallytree.product import Product
from tallytree.tabulate.records import LeafKey

ROOT_STATISTICS: frozenset[Statistic] = frozenset(("total",))
COUNTS_STATISTICS: frozenset[Statistic] = frozenset(("counts",))


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
    check_statistics(mechanism, statistics, {root: ROOT_STATISTICS} | dict.fromkeys(below, COUNTS_STATISTICS))
    statistics = in_place_of_counts(statistics, hierarchy, distinct=terms.distinct)
    keys, count = _keys(hierarchy), checked_column(count, "count")
    _check_person(terms.person, keys, count)
    plan = options.plan(budget, statistics, terms, hierarchy)
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
    for column in sorted(set(columns["origin"]) & set(columns["destination"])):
        raise ValueError(f"destination: {column!r} is a column of origin too; each side has columns of its own")
    first, second = ("destination", "origin") if tree == "destination" else ("origin", "destination")
    order = list(_alternately(first, len(columns[first]), second, len(columns[second])))
    product = Product({"origin": origins, "destination": destinations}, order=order, columns=columns)
    return counts_job(trips, product, budget, options, count=count, argument="trips", statistic="flows")


def _counts_mechanism(given: Any) -> CountsMechanism:
    if given is None:
        return TopDown()
    if not isinstance(given, CountsMechanism) or not is_dataclass(type(given)):
        raise TypeError(f"mechanism: {given!r} must be one of tallytree.counts, for instance TopDown()")
    return given


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
