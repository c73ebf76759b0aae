"""Which pictures show the published numbers of a release, by its statistic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tallytree._boundaries import Boundaries
from tallytree._report.pictures import (
    MOST_SIDE,
    Picture,
    bars_picture,
    cumulative_picture,
    flow_map_picture,
    flow_sides,
    flows_picture,
    map_picture,
    matrix_picture,
    short_labels,
    sizes_picture,
    tree_picture,
    unit_of,
    value_of,
)
from tallytree._report.reading import has_groups, is_small, labels_of, path_names, small_table
from tallytree._report.wording import name
from tallytree.hierarchy import Hierarchy
from tallytree.product import Product
from tallytree.release import Release
from tallytree.release.level_tables import read_all
from tallytree.release.paths import node_numbers, nodes_by_labels

MOST_BINS = 60
MOST_TABLES = 8
"""How many tables are drawn."""


def number_pictures(release: Release, boundaries: Mapping[str, Boundaries]) -> list[Picture]:
    """The pictures of a release, the most telling first."""
    statistic = release.statement["statistic"]
    if statistic == "contributions":
        return [people_picture(read_all(release.level_tables[release.levels[0]]))]
    if statistic == "tables":
        return _tables(release, boundaries)
    if statistic != "group_sizes" and not isinstance(release.tree, Hierarchy):
        return _flows(release, boundaries)
    found: list[Picture] = []
    tree = tree_picture(release)
    if isinstance(release.tree, Hierarchy):
        found = [_map(release, level, shapes) for level, shapes in boundaries.items() if level in release.levels]
    found += [tree] if tree is not None else []
    if statistic == "group_sizes":
        if not has_groups(release):
            return found
        root, labels = release.levels[0], _root_labels(release)
        return [*found, sizes_picture(release, root, labels), cumulative_picture(release, root, labels)]
    level = _first_with_several(release)
    if level is not None:
        table = small_table(release, level)
        found.append(bars_picture(table, "count", unit_of(release), f"Records by {name(level)}"))
    return found


def _root_labels(release: Release) -> list[str]:
    """The label of the root, where it has a column."""
    table = release.level_tables[release.levels[0]].read(0, 1)
    return [str(table.column(column)[0].as_py()) for column in path_names(table)]


def _first_with_several(release: Release) -> str | None:
    """The first level with more than one number, if it is small."""
    return next(
        (level for level in release.levels if release.level_tables[level].num_rows > 1 and is_small(release, level)),
        None,
    )


def people_picture(table: pa.Table) -> Picture:
    """People by their number of records, with noise."""
    labels = [
        f"{first:,}" if first == last else f"{first:,} to {last:,}"
        for first, last in zip(
            table.column("records_from").to_pylist(), table.column("records_to").to_pylist(), strict=True
        )
    ]
    people, errors = table.column("people").to_pylist(), table.column("std_dev").to_pylist()
    shown = pa.table(
        {
            "records": labels,
            "count": people,
            "ci_lower": [round(number - 1.645 * error) for number, error in zip(people, errors, strict=True)],
            "ci_upper": [round(number + 1.645 * error) for number, error in zip(people, errors, strict=True)],
        }
    )
    return bars_picture(
        shown,
        "count",
        "people",
        "People by their number of records (the last bin also has more)",
        MOST_BINS,
    )


def _flows(release: Release, boundaries: Mapping[str, Boundaries]) -> list[Picture]:
    found: list[Picture | None] = [flows_picture(release)]
    sided = release.statement["statistic"] == "flows" and isinstance(release.tree, Product)
    if sided:
        found += [_flow_map(release, shapes) for shapes in boundaries.values()][:2]
        pairs = [level for level in release.levels if is_small(release, level) and all(flow_sides(release, level))]
    else:
        pairs = [
            level for level in release.levels if is_small(release, level) and release.level_tables[level].num_rows > 1
        ]
    if pairs:
        unit = unit_of(release)
        title = "The largest flows" if release.statement["statistic"] == "flows" else "The largest numbers"
        found.append(bars_picture(_ways(release, pairs[-1]), "count", unit, f"{title}, at {name(pairs[-1])}"))
    return [each for each in found if each is not None]


def _ways(release: Release, level: str) -> pa.Table:
    """A small level with one column for the path: of flows, from where to where by the sides' own labels."""
    table = small_table(release, level)
    if release.statement["statistic"] != "flows" or not isinstance(release.tree, Product):
        return table
    return _cells(table, flow_sides(release, level), " → ")


def _cells(table: pa.Table, groups: Sequence[Sequence[str]], between: str = ", ") -> pa.Table:
    """A small table with one column in place of its path: the own labels of every side or attribute."""
    parts = [short_labels(table, columns) for columns in groups]
    labels = [between.join(each) for each in zip(*parts, strict=True)]
    numbers = table.select([each for each in table.column_names if each not in path_names(table)])
    return numbers.add_column(0, "cell", pa.array(labels, pa.string()))


def _tables(release: Release, boundaries: Mapping[str, Boundaries]) -> list[Picture]:
    found: list[Picture] = []
    tree = release.tree
    for levels in release.tables:
        level = release._name(levels)
        if len(found) >= MOST_TABLES or not is_small(release, level) or release.level_tables[level].num_rows < 2:
            continue
        table = small_table(release, level)
        groups = _column_groups(tree, path_names(table))
        title = f"Records by {' and '.join(name(side[-1]) for side in groups)}"
        shapes = boundaries.get(groups[0][-1])
        if len(groups) == 1 and shapes is not None and isinstance(tree, Product):
            areas = tree.attributes[0].hierarchy
            nodes = nodes_by_labels(
                areas, len(areas.levels) - len(areas.columns) + len(groups[0]) - 1,
                [table.column(column) for column in groups[0]], table.num_rows,
            )  # fmt: skip
            found.append(map_picture(shapes, table, nodes, "count", unit_of(release)))
        if len(groups) == 2 and all(len({*labels_of(table, side)}) <= MOST_SIDE for side in groups):
            found.append(matrix_picture(release, table, groups[0], groups[1], title))
        else:
            found.append(bars_picture(_cells(table, groups), "count", unit_of(release), title))
    return found


def _column_groups(tree: Any, columns: list[str]) -> list[list[str]]:
    """The path columns of a table by attribute."""
    if not isinstance(tree, Product):
        return [[column] for column in columns]
    sides = ([column for column in side.columns if column in columns] for side in tree.attributes)
    return [side for side in sides if side]


def _map(release: Release, level: str, shapes: Boundaries) -> Picture:
    """A map of counts, or of groups of all sizes."""
    tree = release.tree
    depth = release.levels.index(level)
    rows = release.level_tables[level]
    table = rows.read(0, rows.num_rows).unify_dictionaries()
    assert isinstance(tree, Hierarchy)  # noqa: S101  (the caller has looked)
    nodes = node_numbers(tree, depth, table, table.num_rows)
    return map_picture(shapes, table, nodes, value_of(release), unit_of(release))


def _flow_map(release: Release, shapes: Boundaries) -> Picture | None:
    """The largest flows between areas of a level that both sides have; None where the release has no such level."""
    tree = release.tree
    if not isinstance(tree, Product):
        return None
    for level in release.levels:
        sides = flow_sides(release, level)
        reached = [
            len(columns) > 0 and attribute.hierarchy.columns[len(columns) - 1] == shapes.level
            for columns, attribute in zip(sides, tree.attributes, strict=True)
        ]
        if not all(reached) or release.level_tables[level].num_rows > 10 * 200_000:
            continue
        table = release.level_tables[level].read(0, release.level_tables[level].num_rows).unify_dictionaries()
        nodes = []
        for columns, attribute in zip(sides, tree.attributes, strict=True):
            depth = attribute.hierarchy.levels.index(shapes.level)
            chosen = [table.column(column) for column in columns]
            nodes.append(nodes_by_labels(attribute.hierarchy, depth, chosen, table.num_rows))
        counts = table.column("count").to_numpy()
        largest = (-counts).argsort(kind="stable")
        largest = largest[(nodes[0][largest] >= 0) & (nodes[1][largest] >= 0)][:2_000]  # others are not listed
        return flow_map_picture(
            shapes,
            [{"origin": int(nodes[0][row]), "destination": int(nodes[1][row]), "value": float(counts[row])}
             for row in largest],
            unit_of(release),
        )  # fmt: skip
    return None
