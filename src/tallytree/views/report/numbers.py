"""Which pictures show the published numbers of a release, by its statistic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tallytree.hierarchy import Hierarchy
from tallytree.release.counted_unit import counted_noun, counted_unit
from tallytree.release.intervals import LevelErrors, with_intervals
from tallytree.release.view.release_view import PublishedTable, ReleaseView, path_columns
from tallytree.release.view.sides import node_numbers
from tallytree.views.boundaries import Boundaries
from tallytree.views.report.pictures import (
    MOST_SIDE,
    Picture,
    bars_picture,
    flow_map_picture,
    flow_sides,
    flows_picture,
    map_picture,
    matrix_picture,
    short_labels,
    side_size,
    tree_picture,
)
from tallytree.views.report.pyramids import column_groups, pyramid_picture, pyramid_sides
from tallytree.views.report.reading import ALPHA, has_groups, is_small, root_labels, small_table
from tallytree.views.report.size_pictures import cumulative_picture, sizes_picture
from tallytree.views.report.wording import capitalized, name

MOST_BINS = 60
MOST_FLOWS = 2_000_000
"""Larger levels are not drawn on a map."""
MOST_AREAS = 4_000
"""Levels with more areas are not drawn on a map."""
MOST_TABLES = 8
"""How many tables are drawn."""


def number_pictures(view: ReleaseView, boundaries: Mapping[str, Boundaries]) -> list[Picture]:
    """The pictures of a release, the most telling first."""
    boundaries = {level: shapes for level, shapes in boundaries.items() if len(shapes.frame) <= MOST_AREAS}
    if view.tree is None:
        return [people_picture(view.whole(view.levels[0]))]
    if view.kind.has_tables:
        return _tables(view, boundaries)
    if view.kind.by_size:
        return _sizes(view, boundaries)
    return (_areas if isinstance(view.tree, Hierarchy) else _cells_of_product)(view, boundaries)


def _areas(view: ReleaseView, boundaries: Mapping[str, Boundaries]) -> list[Picture]:
    """Counts of the areas of one hierarchy."""
    found = [*_map(view, boundaries), *_tree(view)]
    level = _first_with_several(view)
    if level is not None:
        table = small_table(view, level)
        found.append(
            bars_picture(
                view.shown(table),
                "count",
                counted_unit(view.statement),
                f"{capitalized(counted_noun(view.statement))} by {name(view.word(level))}",
            )
        )
    return found


def _sizes(view: ReleaseView, boundaries: Mapping[str, Boundaries]) -> list[Picture]:
    """Groups by size. The map and the tree are of their numbers, which may be public."""
    found = []
    if has_groups(view):
        root, labels = view.levels[0], root_labels(view)
        found = [sizes_picture(view, root, labels), cumulative_picture(view, root, labels)]
    return [*found, *_map(view, boundaries), *_tree(view)]


def _tree(view: ReleaseView) -> list[Picture]:
    drawn = tree_picture(view)
    return [] if drawn is None else [drawn]


def _first_with_several(view: ReleaseView) -> str | None:
    """The first level with more than one number, if it is small."""
    return next(
        (level for level in view.levels if view.rows(level) > 1 and is_small(view, level)),
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
    known = with_intervals(table, ALPHA, LevelErrors())
    shown = pa.table({"records": labels, **{name: known.column(name) for name in ("people", "ci_lower", "ci_upper")}})
    title = "People by their number of records (the last bin also has more)"
    return bars_picture(shown, "people", "people", title, MOST_BINS)


def _cells_of_product(view: ReleaseView, boundaries: Mapping[str, Boundaries]) -> list[Picture]:
    """Counts of pairs of areas, or of other combinations on a chain of levels."""
    found: list[Picture | None] = [flows_picture(view)]
    if view.kind.sides:
        found += [_flow_map(view, shapes) for shapes in boundaries.values()][:2]
        pairs = [level for level in view.levels if is_small(view, level) and all(flow_sides(view, level))]
    else:
        pairs = [level for level in view.levels if is_small(view, level) and view.rows(level) > 1]
    if pairs:
        unit = counted_unit(view.statement)
        title = "The largest flows" if view.kind.sides else "The largest numbers"
        found.append(bars_picture(_ways(view, pairs[-1]), "count", unit, f"{title}, at {name(view.word(pairs[-1]))}"))
    return [each for each in found if each is not None]


def _ways(view: ReleaseView, level: str) -> pa.Table:
    """A small level with one column for the path: of flows, from where to where by the sides' own labels."""
    table = view.shown(small_table(view, level))
    if not view.kind.sides:
        return table
    return _cells(table, flow_sides(view, level), " → ")


def _cells(table: pa.Table, groups: Sequence[Sequence[str]], between: str = ", ") -> pa.Table:
    """A small table with one column in place of its path: the own labels of every side or attribute."""
    parts = [short_labels(table, columns) for columns in groups]
    labels = [between.join(each) for each in zip(*parts, strict=True)]
    numbers = table.select([each for each in table.column_names if each not in path_columns(table)])
    return numbers.add_column(0, "cell", pa.array(labels, pa.string()))


def _tables(view: ReleaseView, boundaries: Mapping[str, Boundaries]) -> list[Picture]:
    found: list[Picture] = []
    mapped = False  # one map, of the table that comes first
    for published in _most_telling_first(view):
        level = published.level
        if len(found) >= MOST_TABLES or not is_small(view, level) or view.rows(level) < 2:
            continue
        table = small_table(view, level)
        groups = column_groups(view, path_columns(table))
        sides = pyramid_sides(view, groups)
        if sides is not None:
            found.append(pyramid_picture(view, table, groups, sides))
            continue
        by = " and ".join(name(view.word(columns[-1])) for columns in groups)
        title = f"{capitalized(counted_noun(view.statement))} by {by}"
        side = next(each for each in view.sides if groups[0][-1] in each.columns)
        shapes = boundaries.get(side.hierarchy.levels[side.depth(len(groups[0]))])
        if shapes and shapes.fits(side.hierarchy) and len(groups) == 1 and not mapped:
            mapped = True
            nodes = side.nodes([table.column(column) for column in groups[0]], table.num_rows)
            found.append(map_picture(shapes, side, table, nodes, "count", counted_unit(view.statement)))
        if len(groups) == 2 and all(side_size(view, side) <= MOST_SIDE for side in groups):
            found.append(matrix_picture(view, table, groups[0], groups[1], title))
        else:
            found.append(bars_picture(_cells(view.shown(table), groups), "count", counted_unit(view.statement), title))
    return found


def _most_telling_first(view: ReleaseView) -> list[PublishedTable]:
    """The tables, those that are drawn as a pyramid or on a map first; small ones by area before the others."""

    def order(table: PublishedTable) -> tuple[int, int]:
        groups = column_groups(view, view.paths(table.level))
        return (0 if pyramid_sides(view, groups) is not None else 1, len(groups))

    return sorted(view.tables, key=order)


def _map(view: ReleaseView, boundaries: Mapping[str, Boundaries]) -> list[Picture]:
    """A map of the finest level that has boundaries: of counts, or of groups of all sizes."""
    for level in [level for level in view.levels if level in boundaries][-1:]:
        table = view.whole(level)
        nodes = node_numbers(view.cells, view.levels.index(level), table, table.num_rows)
        unit = counted_unit(view.statement)
        return [map_picture(boundaries[level], view.sides[0], table, nodes, view.number, unit)]
    return []


def _flow_map(view: ReleaseView, shapes: Boundaries) -> Picture | None:
    """The largest flows between areas of a level that both sides have; None where the release has no such level."""
    for level in view.levels:
        sides = flow_sides(view, level)
        reached = [
            side.hierarchy.levels[side.depth(len(columns))] == shapes.level and shapes.fits(side.hierarchy)
            for columns, side in zip(sides, view.sides, strict=True)
        ]
        if not all(reached) or view.rows(level) > MOST_FLOWS:
            continue
        table = view.whole(level)
        nodes = [
            side.nodes([table.column(column) for column in columns], table.num_rows)
            for columns, side in zip(sides, view.sides, strict=True)
        ]
        counts = table.column("count").to_numpy()
        largest = (-counts).argsort(kind="stable")
        largest = largest[(nodes[0][largest] >= 0) & (nodes[1][largest] >= 0)][:2_000]  # others are not listed
        return flow_map_picture(
            shapes,
            view.sides[0],
            [{"origin": int(nodes[0][row]), "destination": int(nodes[1][row]), "value": float(counts[row])}
             for row in largest],
            counted_unit(view.statement),
        )  # fmt: skip
    return None
