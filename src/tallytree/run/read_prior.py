"""What a release takes from a prior: its numbers, in the cells of the release's hierarchies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.engines import Local
from tallytree.hierarchy import RESERVED, Hierarchy
from tallytree.kinds.terms import OnUnknown
from tallytree.private import CountRecords, LeafCounts
from tallytree.product import Attribute, Product
from tallytree.release import Release
from tallytree.release.view.release_view import ReleaseView
from tallytree.run.options import PriorOptions
from tallytree.run.prior import Prior, release_of
from tallytree.run.release_keys import plan_digest
from tallytree.solvers.tables.variance import Table as Place
from tallytree.sources.leaf_paths import ended
from tallytree.sources.locate import locate
from tallytree.sources.reading import column_names
from tallytree.support.arrays import BoolArray, FloatArray, IntArray, NumberArray, sum_by_key
from tallytree.tables import TableLayout
from tallytree.trees.leaf_keys import LeafKey

_NUMBER = "number of the area"
COUNT = "count"
"""The column of the numbers."""
LEAST_FOUND = 0.5
"""The least share of a release in cells of the hierarchies; with less its labels are others."""
MOST_RECORDS = 2**50
"""Cells are fitted in doubles."""
MOST_ERROR, TOO_LARGE = 1e30, 1e154
"""A larger error says no more; and what is refused, since its square is beyond doubles."""


def prior_of_tables(given: PriorOptions, layout: TableLayout) -> Prior | None:
    """The prior of a release of tables; None without one.

    Args:
        given: the options; `prior` is a public table, a release, or the folder of one. Without it, the release that is
            revised is the prior.
        layout: the tables.

    Raises:
        ValueError: it may not be used, or none of its tables is one of the layout's hierarchies.
        TypeError: it is no table and no release.
        OSError: it cannot be read.
    """
    tables: dict[Place, FloatArray] = {}
    read = _read(given, layout.product, layout.product.attributes)
    if read is None:
        return None
    errors: dict[Place, float] = {}
    sides = layout.product.attributes
    # Where several tables give the same cells, the coarsest goes last and stays: its number and its error.
    for refined, listed, error in sorted(read.tables, key=lambda each: -_cells_at(sides, each[0])):
        level, marginal, cells = layout.summed_at(refined, listed.parts, listed.counts)
        gone = _absent(sides, layout.refined_at(level, marginal), read.release)
        cells[reduce(np.logical_or.outer, gone).reshape(cells.shape)] = np.nan
        tables[level, marginal] = cells
        errors[level, marginal] = error * (_cells_at(sides, refined) / cells.size) ** 0.5
    if read.error_of_root is not None:
        errors.setdefault((0, (0,) * (len(sides) - 1)), read.error_of_root)
    return Prior(tables, errors, read.found, read.release, read.revised, given.prior_is_public)


def prior_of_counts(given: PriorOptions, tree: Hierarchy | Product) -> Prior | None:
    """The prior of a release of counts; None without one.

    Its `tables` are by level: (depth, 0) has nodes, int64 (n,) ascending, and (depth, 1) their counts, float64 (n,);
    all other nodes of the level have 0. Where the earlier release lacks labels, (depth, 2) and so on have, per
    hierarchy, which nodes are absent, int64 (nodes,), 0 or 1: what is of such a node is not known.

    Args:
        given: the options; see `prior_of_tables`.
        tree: the public tree.

    Raises:
        ValueError, TypeError, OSError: see `prior_of_tables`.
    """
    sides = _sides(tree)
    read = _read(given, tree, sides)
    if read is None:
        return None
    levels: dict[int, tuple[IntArray, FloatArray]] = {}
    absent: dict[int, list[BoolArray]] = {}
    errors: dict[int, float] = {}
    # As in `prior_of_tables`: the coarsest of several tables goes last, and sums have larger errors.
    for refined, listed, error in sorted(read.tables, key=lambda each: -_cells_at(sides, each[0])):
        if isinstance(tree, Product):
            found = tree.nodes_of_table(refined, listed.parts)
            if found is None:
                continue
            depth, rows = found
            error *= (_cells_at(sides, refined) / tree.size(depth)) ** 0.5
        else:
            depth, rows = len(tree.levels) - 1 - len(tree.columns) + refined[0], listed.parts[0]
        levels[depth], errors[depth] = sum_by_key(rows, listed.counts.astype(np.float64)), error
        absent[depth] = _absent(sides, _refined_at(tree, depth), read.release)
    if not levels:
        if read.revised:
            return None
        raise ValueError("prior: it has no level of the tree; give a table or a release with columns of its levels")
    if read.error_of_root is not None:
        errors.setdefault(0, read.error_of_root)
    for depth in range(max(levels), 0, -1):  # coarser levels are sums, where they are not given
        if depth - 1 not in levels:
            nodes, counts = levels[depth]
            levels[depth - 1] = sum_by_key(tree.parents(depth, nodes), counts)
            errors.setdefault(depth - 1, errors[depth] * (tree.size(depth) / tree.size(depth - 1)) ** 0.5)
            fine, coarse = _refined_at(tree, depth), _refined_at(tree, depth - 1)
            absent[depth - 1] = list(map(_with_absent_below, sides, fine, coarse, absent[depth]))
    tables: dict[tuple[int, int], NumberArray] = {}
    for depth, each in levels.items():
        gone = absent[depth] if any(map(np.any, absent[depth])) else []
        parts: list[NumberArray] = [*each, *(side.astype(np.int64) for side in gone)]
        tables |= {(depth, part): numbers for part, numbers in enumerate(parts)}
    return Prior(tables, errors, read.found, read.release, read.revised, given.prior_is_public)


@dataclass(frozen=True, eq=False)
class _Read:
    """What was read of a prior.

    Attributes:
        tables: per table, how many columns of each hierarchy it has, what it counts there, and the error of a cell.
        error_of_root: of the number of the root, which has no columns; None where it has no such table.
        found: see `Prior`.
        release: see `Prior`.
        revised: see `Prior`.
    """

    tables: Sequence[tuple[Sequence[int], LeafCounts, float]]
    error_of_root: float | None
    found: float
    release: Release | None
    revised: bool


def _read(given: PriorOptions, tree: Hierarchy | Product, sides: Sequence[Attribute]) -> _Read | None:
    """Read the prior of a release; None without one.

    Args:
        given: the options.
        tree: the public tree. A release of another tree cannot be revised, which is said before anything is made.
        sides: the hierarchies.
    """
    revised = given.prior is None and given.revised is not None
    release = release_of(given)
    if given.revised is not None and revised:
        release = given.revised.release
        if release.tree is None or plan_digest("", release.tree) != plan_digest("", tree):
            return None
    if release is None:
        if given.prior is None:
            return None
    elif not _has_counts(release):
        if given.prior is None:
            return None
        raise ValueError(
            f"prior: the release is of {ReleaseView(release).statistic}, and not of counts from 0; give one of tables, "
            "counts or flows"
        )
    tables, shares = [], [0.0]
    try:
        listing = list(_tables_of(given.prior, release, [column for side in sides for column in side.columns]))
        error_of_root = None if release is None else _error_of_root(release)
    except ValueError as error:
        if not revised:
            raise
        raise ValueError(f"revises: {str(error).removeprefix('prior: ')}") from None
    for table in listing:
        refined = [_refined(side, table.columns) for side in sides]
        keys = [LeafKey(*_leaves_at(side, depth)) for side, depth in zip(sides, refined, strict=True) if depth]
        unknown: OnUnknown = "error" if release is None else "drop"
        try:
            listed = Local().tabulate(table.given, CountRecords(tuple(keys), COUNT, unknown, "prior"))
        except ValueError as error:
            what = str(error).partition(";")[0].removeprefix("prior: ")
            raise ValueError(f"prior: {what}; correct the prior, or leave such rows out of it") from None
        if int(listed.counts.sum()) > MOST_RECORDS:
            raise ValueError("prior: its counts add up to more than 2^50; give a coarser unit")
        shares.append(1.0 if not table.total else float(listed.counts.sum()) / table.total)
        tables.append((refined, listed, table.error))
    if max(shares) < LEAST_FOUND:
        raise ValueError(
            f"prior: {max(shares):.0%} of what it counts lies in cells of the hierarchies; give one with their columns "
            "and labels"
        )
    return _Read(tables, error_of_root, min(shares[1:]), release, revised)


def truncated(side: Attribute, depth: int) -> Hierarchy:
    """The hierarchy of the first columns, 1 or more, whose leaves are the nodes of that level in the same order."""
    reach = side.hierarchy.reach_at(len(side.hierarchy.levels) - 1 - len(side.columns) + depth)
    if reach is not None:
        reach = reach - (len(side.hierarchy.columns) - len(side.columns))
    return Hierarchy.from_table(ended(_path_table(side, depth), reach), side.columns[:depth])


def _path_table(side: Attribute, depth: int) -> pa.Table:
    """The first columns of all nodes of a level, in order, as strings."""
    arrays = side.path_arrays(depth, np.arange(side.size(depth), dtype=np.int64))
    return pa.table(dict(zip(side.columns[:depth], arrays, strict=True)))


def _sides(tree: Hierarchy | Product) -> Sequence[Attribute]:
    """The hierarchies of a tree; of one that is no cross, itself."""
    return tree.attributes if isinstance(tree, Product) else (Attribute("area", tree, tree.columns),)


def _cells_at(sides: Sequence[Attribute], refined: Sequence[int]) -> int:
    """How many cells a table has with so many columns of each hierarchy."""
    return math.prod(side.size(depth) for side, depth in zip(sides, refined, strict=True))


def _refined_at(tree: Hierarchy | Product, depth: int) -> list[int]:
    """How many columns of each of its hierarchies are refined at a level of a tree."""
    columns = tree.path_columns(depth)
    return [sum(column in columns for column in side.columns) for side in _sides(tree)]


def _with_absent_below(side: Attribute, fine: int, coarse: int, absent: BoolArray) -> BoolArray:
    """The nodes of a hierarchy, where `coarse` columns are refined, that have an absent one below: bool (nodes,)."""
    found: BoolArray = np.zeros(side.size(coarse), dtype=np.bool_)
    found[side.ancestors(fine, coarse)[absent]] = True
    return found


def _absent(sides: Sequence[Attribute], refined: Sequence[int], release: Release | None) -> list[BoolArray]:
    """The nodes of each hierarchy whose labels an earlier release does not have: bool (nodes,); of a table, none.

    Args:
        sides: the hierarchies.
        refined: how many columns of each are refined.
        release: the earlier release; None where the prior is a table, in which nodes that are not listed have 0.
    """
    found: list[BoolArray] = [
        np.zeros(side.size(depth), dtype=np.bool_) for side, depth in zip(sides, refined, strict=True)
    ]
    if release is None or release.tree is None:
        return found
    others = _sides(ReleaseView(release).known_tree)
    for side, depth, absent in zip(sides, refined, found, strict=True):
        names = list(side.columns[:depth])
        other = next((each for each in others if list(each.columns[:depth]) == names), None)
        if names and other is not None:
            own = _path_table(side, depth)
            numbered = own.append_column(_NUMBER, pa.array(np.arange(own.num_rows)))
            there = _path_table(other, depth)
            absent[numbered.join(there, names, join_type="left anti").column(_NUMBER).to_numpy()] = True
    return found


@dataclass(frozen=True)
class _PriorTable:
    """A table of a prior.

    Attributes:
        given: the table.
        columns: those that say which cell a row is about.
        total: what it counts; None where all of that has to lie in cells of the hierarchies.
        error: of a number, a root mean square; not a number where it is not known.
    """

    given: Any
    columns: tuple[str, ...]
    total: int | None = None
    error: float = 0.0


def _tables_of(prior: Any, release: Release | None, columns: Sequence[str]) -> Iterator[_PriorTable]:
    """The tables of a prior, of those with columns of the hierarchies, and of no others.

    Raises:
        ValueError: a table without a count, or without such columns; or with a column that is unknown.
    """
    if release is None:
        names = column_names(locate(prior, "prior", (), public=True), "prior")
        known = tuple(name for name in names if name in columns)
        if COUNT not in names or not known:
            raise ValueError(
                f"prior: it has the columns {', '.join(map(repr, names))}; it needs {COUNT!r}, and columns of the "
                f"hierarchies, which are {', '.join(map(repr, columns))}"
            )
        strange = [name for name in names if name not in (*columns, *RESERVED)]
        if strange:  # a misspelt column would be taken for one that is absent, and a further one be added up over
            raise ValueError(
                f"prior: column {strange[0]!r} is none of the hierarchies; name the columns as in these, and leave out "
                f"others: it may have {', '.join(map(repr, [*columns, COUNT]))}, and errors as a release has them"
            )
        yield _PriorTable(prior, known)
        return
    view = ReleaseView(release)
    for level in view.levels:
        path = view.paths(level)
        if path and set(path) <= set(columns):
            rows = view.whole(level).select([*path, COUNT]).drop_null()
            total = pc.sum(rows.column(COUNT)).as_py() or 0
            yield _PriorTable(rows, tuple(path), total, _error_at(view, level))


def _error_at(view: ReleaseView, level: str) -> float:
    """The error of a number of a level, a root mean square: as it is stated, else that of the noise; else not known.

    Raises:
        ValueError: what is stated is no error, or so large that its square is no number.
    """
    for name in ("typical_error", "std_dev"):
        if view.has(level, name):
            stated = view.whole(level).column(name).drop_null().to_numpy().astype(np.float64)
            wrong = stated[~((stated >= 0) & (stated < TOO_LARGE))]
            if len(wrong):
                raise ValueError(
                    f"prior: its table {level!r} has a {name} of {wrong[0]:g}, which is no error of a number; give "
                    "the release as it was written, or leave it out"
                )
            if len(stated):
                return min(float(np.sqrt(np.mean(stated**2))), MOST_ERROR)
    noise = {} if view.tree is None else view.noise
    return float(noise[level][1].variance) ** 0.5 if level in noise else float("nan")


def _error_of_root(release: Release) -> float | None:
    """The error of the number of a release's root, where that is a table without columns; None where it is none."""
    view = ReleaseView(release)
    return next((_error_at(view, level) for level in view.levels if not view.paths(level)), None)


def _has_counts(release: Release) -> bool:
    """Whether a release is of counts, none of them below 0, as those of `LeafGaussian` may be."""
    view = ReleaseView(release)
    if view.number != COUNT:
        return False
    return all(view.column(level, COUNT).min(initial=0) >= 0 for level in view.levels)


def _refined(side: Attribute, names: Sequence[str]) -> int:
    """How many columns of a hierarchy a table has, from the top.

    Raises:
        ValueError: a column without those above it.
    """
    depth = max((at for at, column in enumerate(side.columns, 1) if column in names), default=0)
    missing = [column for column in side.columns[:depth] if column not in names]
    if missing and not (missing == [side.columns[0]] and side.size(1) == 1):
        raise ValueError(
            f"prior: it has the column {side.columns[depth - 1]!r} and not {missing[0]!r}, which is above it; give both"
        )
    return depth


def _leaves_at(side: Attribute, depth: int) -> tuple[Hierarchy, tuple[str, ...]]:
    """A hierarchy down to a level, as one of its own, and its columns."""
    if depth == len(side.columns):
        return side.hierarchy, side.columns
    hierarchy = truncated(side, depth)
    return hierarchy, hierarchy.columns
