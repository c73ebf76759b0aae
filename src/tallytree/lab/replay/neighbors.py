"""Random small data sets and their neighbors: what one person can change, under each relation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import Hierarchy

Row = dict[str, object]
Rows = list[Row]
LABELS = "abcdefgh"
ONE = 100
"""The id of the person who changes."""


@dataclass(frozen=True)
class Change:
    """What neighbors may differ by.

    Attributes:
        replaced: whether a person's records change (`change_one`); otherwise a person comes or goes.
        records: m, the most records of a person.
        named: whether a column names the people, of whom more records than m are then allowed.
        fixed: whether a person has exactly one record in both data sets, so that the total is public.
    """

    replaced: bool
    records: int
    named: bool
    fixed: bool

    def number(self, rng: np.random.Generator) -> int:
        """How many records a person has."""
        if self.fixed:
            return 1
        return int(rng.integers(0, self.records + (3 if self.named else 1)))


def random_tree(rng: np.random.Generator, prefix: str, depth: int | None = None) -> Hierarchy:
    """A tree of one to three levels, with one to three children each; some nodes are only children."""
    levels = [f"{prefix}{number}" for number in range(int(rng.integers(1, 4)) if depth is None else depth)]
    paths: list[tuple[str, ...]] = [()]
    for _ in levels:
        paths = [(*path, LABELS[child]) for path in paths for child in range(int(rng.integers(1, 4)))]
    table = pa.table({level: [path[i] for path in paths] for i, level in enumerate(levels)})
    return Hierarchy.from_table(table, levels=levels)


def many_areas(rng: np.random.Generator, prefix: str) -> Hierarchy:
    """A tree of two levels, with so many areas that the cells of tables learn from each other."""
    above = sorted(LABELS[i] for i in rng.integers(0, 3, int(rng.integers(24, 48))))
    leaves = [f"{label}{i}" for i, label in enumerate(above)]
    table = pa.table({f"{prefix}0": above, f"{prefix}1": leaves})
    return Hierarchy.from_table(table, levels=table.column_names)


def paths_of(tree: Hierarchy) -> Rows:
    """The leaves' paths."""
    rows: Rows = tree.leaf_table().to_pylist()
    return rows


def as_table(rows: Rows, schema: pa.Schema) -> pa.Table:
    """Rows as a table, in any order: the order of private rows must not matter."""
    return pa.Table.from_pylist(rows, schema)


def neighboring_people(
    rng: np.random.Generator,
    places: Sequence[Row],
    change: Change,
    outside: Row | None = None,
    more: Callable[[bool], Row] = lambda one: {},
) -> tuple[Rows, Rows]:
    """Records of people, and the same for a neighbor. Each record has the column `id`.

    Args:
        rng: where the numbers come from.
        places: what a record can be, without an id.
        change: what neighbors may differ by.
        outside: a record outside of the hierarchy, where such records are dropped.
        more: further columns of a record; its argument is whether the record is of the person who changes.
    """
    possible = [*places, *([outside] if outside else [])]

    def records(person: int) -> Rows:
        chosen = _chosen_places(rng, len(possible), change, extreme=person == ONE)
        return [{**possible[place], "id": person, **more(person == ONE)} for place in chosen]

    others = [record for person in range(int(rng.integers(0, 8))) for record in records(person)]
    first, second = records(ONE), records(ONE)
    if not change.replaced:
        second = []
        if rng.random() < 0.5:
            first, second = second, first
    return _shuffled(rng, [*others, *first]), _shuffled(rng, [*others, *second])


def neighboring_sizes(
    rng: np.random.Generator, places: Sequence[Row], change: Change, smallest: int, reach: int
) -> tuple[Rows, Rows]:
    """Groups as (leaf, size, groups) rows, and the same for a neighbor: sizes move by what a person's records add.

    Two in three pairs differ as much as any: m records of one group, the largest, or of m equal groups.

    Args:
        rng: where the numbers come from.
        places: the leaves' paths.
        change: what neighbors may differ by; no group comes or goes.
        smallest: no size is below it.
        reach: the most that a record adds to a size.
    """
    groups = [(int(rng.integers(len(places))), int(rng.integers(smallest, 7))) for _ in range(int(rng.integers(1, 9)))]
    kind, m = rng.choice(["any groups", "the largest groups", "equal groups"]), change.records
    if kind == "equal groups":
        groups = [(int(rng.integers(len(places))), smallest + reach)] * (2 * m) + groups[:2]
    moved, largest_first = list(groups), sorted(range(len(groups)), key=lambda group: -groups[group][1])
    ways = [1, -1] if change.replaced else [1 if rng.random() < 0.5 else -1]
    for number, way in enumerate(ways):
        for i in range(m):
            if kind == "equal groups":
                group, by = number * m + i, reach
            elif kind == "the largest groups":
                group, by = largest_first[min(number, len(groups) - 1)], reach
            else:
                group, by = int(rng.integers(len(moved))), int(rng.integers(1, reach + 1))
            place, size = moved[group]
            moved[group] = (place, max(smallest, size + way * by))
    return _counted(rng, groups, places), _counted(rng, moved, places)


def neighboring_members(
    rng: np.random.Generator,
    places: Sequence[Row],
    change: Change,
    quantity: int,
    when: Callable[[], Row] = dict,
) -> tuple[Rows, Rows]:
    """Entity rows (leaf, group, id, amount) and the same for a neighbor; every group has one leaf.

    Args:
        rng: where the numbers come from.
        places: the leaves' paths.
        change: what neighbors may differ by.
        quantity: amounts go beyond it, since the release cuts them.
        when: the columns of a record that say when it was.
    """
    homes = [int(rng.integers(len(places))) for _ in range(5)]
    memberships: Rows = [{**places[home], "group": f"g{i}"} for i, home in enumerate(homes)]

    most = rng.random() < 0.5

    def amount(one: bool) -> Row:
        return {"amount": quantity if one and most else int(rng.integers(0, quantity + 2)), **when()}

    return neighboring_people(rng, memberships, change, more=amount)


def public_groups(places: Sequence[Row], rows: Sequence[Rows]) -> pa.Table:
    """The number of groups of every leaf: all that occur, and one more that nobody is in."""
    numbers = []
    for place in places:
        found = {row["group"] for each in rows for row in each if all(row[key] == place[key] for key in place)}
        numbers.append({**place, "groups": len(found) + 1})
    return pa.Table.from_pylist(numbers)


def public_totals(private: pa.Table, level: str, count: str | None) -> pa.Table:
    """The number of records of every area of a level, from a private table with a column of counts, or without one."""
    numbers = private[count] if count else pa.array([1] * private.num_rows, pa.int64())
    table = pa.table({level: private[level], "count": numbers}).group_by([level]).aggregate([("count", "sum")])
    return table.rename_columns([level, "count"]).sort_by(level)


def _chosen_places(rng: np.random.Generator, places: int, change: Change, *, extreme: bool) -> list[int]:
    """Where the records of a person are; the one who changes has, in two of three pairs, m in one place, or in m."""
    kind = rng.choice(["any", "one place", "many places"]) if extreme else "any"
    if kind == "any":
        return [int(rng.integers(places)) for _ in range(change.number(rng))]
    if kind == "one place":
        return [int(rng.integers(places))] * change.records
    return [int(place) for place in rng.permutation(places)[: change.records]]


def _counted(rng: np.random.Generator, groups: Sequence[tuple[int, int]], places: Sequence[Row]) -> Rows:
    number: dict[tuple[int, int], int] = {}
    for group in groups:
        number[group] = number.get(group, 0) + 1
    rows: Rows = [{**places[place], "size": size, "groups": each} for (place, size), each in number.items()]
    return _shuffled(rng, rows)


def _shuffled(rng: np.random.Generator, rows: Rows) -> Rows:
    return [rows[place] for place in rng.permutation(len(rows))]
