"""The noisy measurements that a release recorded, as what a mechanism is handed: nothing private is in reach of it.

What a release holds is read and checked here against the public hierarchy: its nodes, in order, each with a list of as
many noisy integers as the statement says were measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, NoReturn, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.hierarchy import Hierarchy, Levels
from tallytree.kinds.measurements import Distribution, Measurement, Noise, Statistic
from tallytree.kinds.terms import Invariants
from tallytree.release.release import Release
from tallytree.release.view.sides import node_numbers
from tallytree.sizes.mechanism import SizesDomain
from tallytree.sources.column_types import text_column
from tallytree.support.arrays import IntArray, concatenate_ranges

MAX_VALUE = 2**62
"""No noisy value is larger, so that sums with it stay within 64 bits (see `accounting.scales.MAX_NOISE`)."""

_FRACTION = re.compile(r"[0-9]{1,400}(/[0-9]{1,400})?")


class RecordedMeasurements:
    """Answers with what was measured before, in any chunks; implements `tallytree.kinds.measurements.Measures`.

    Args:
        levels: per measured level, by name, the measurement of all its nodes, in order.
    """

    def __init__(self, levels: Mapping[str, Measurement]) -> None:
        self._levels = dict(levels)

    def measure(
        self, level: str, nodes: IntArray, statistic: Statistic, cells: tuple[int, int] | None = None
    ) -> Measurement:
        """The recorded values of `statistic` at `nodes` (int64 (n,)) of `level`; consecutive nodes are not copied.

        With `cells`, the cells cells[0] … cells[1] − 1 of a single node.

        Raises:
            ValueError: that was not measured there, or the level does not have such nodes, or the node such cells.
        """
        complete = self._levels.get(level)
        if complete is None or complete.statistic != statistic:
            raise ValueError(
                f"measure: {statistic!r} at level {level!r} is not among the recorded measurements, which are "
                f"{described(self._levels)}; ask for those"
            )
        if len(nodes) and not 0 <= nodes.min() <= nodes.max() < len(complete.nodes):
            raise ValueError(
                f"nodes: {int(nodes.min())} … {int(nodes.max())} must lie between 0 and {len(complete.nodes) - 1}"
            )
        if cells is not None:
            return _part(complete, nodes, cells)
        starts, lengths = complete.offsets[nodes], complete.offsets[nodes + 1] - complete.offsets[nodes]
        if len(nodes) and np.array_equal(nodes, np.arange(nodes[0], nodes[0] + len(nodes))):
            values = complete.values[starts[0] : starts[-1] + lengths[-1]]
            return replace(
                complete, nodes=nodes, values=values, offsets=complete.offsets[nodes[0] : nodes[-1] + 2] - starts[0]
            )
        places, offsets = concatenate_ranges(starts, lengths)
        return replace(complete, nodes=nodes, values=complete.values[places], offsets=offsets)

    def measure_stable(self, level: str) -> Measurement:
        """Nothing: group sizes are not measured with a threshold.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"measure: no counts above a threshold were recorded at level {level!r}; ask for measure()")


def _part(complete: Measurement, nodes: IntArray, cells: tuple[int, int]) -> Measurement:
    """Some cells of one node, not copied.

    Raises:
        ValueError: several nodes, or cells that the node does not have.
    """
    first, stop = cells
    if len(nodes) != 1:
        raise ValueError(f"cells: a part is of one node, and nodes has {len(nodes)}; measure them one by one")
    begin, end = complete.offsets[nodes[0]], complete.offsets[nodes[0] + 1]
    if not 0 <= first < stop <= end - begin:
        raise ValueError(f"cells: {first} … {stop} must be a part of 0 … {end - begin} that is not empty")
    values = complete.values[begin + first : begin + stop]
    return replace(complete, nodes=nodes, values=values, offsets=np.array([0, stop - first]), first_cell=first)


def described(measured: Mapping[str, Measurement] | Mapping[str, tuple[Statistic, Noise]]) -> str:
    """What was measured, level by level, for a message."""
    kinds = {level: each.statistic if isinstance(each, Measurement) else each[0] for level, each in measured.items()}
    return ", ".join(f"{statistic!r} at {level!r}" for level, statistic in kinds.items()) or "none"


def recorded_noise(statement: Mapping[str, Any], hierarchy: Levels) -> dict[str, tuple[Statistic, Noise]]:
    """What was measured at each measured level, root first, and the noise's exact law, as a statement says.

    Raises:
        ValueError: its levels are not the hierarchy's, or one of them is not described as statements describe levels.
    """
    listed = statement.get("levels")
    levels = listed if isinstance(listed, list) and all(isinstance(level, Mapping) for level in listed) else []
    names = tuple(level.get("level") for level in levels)
    if names != hierarchy.levels:
        raise ValueError(
            f"hierarchy: its levels are {', '.join(hierarchy.levels)}, but the release's are "
            f"{', '.join(map(str, names)) or 'not stated'}; give the hierarchy of the release"
        )
    measured: dict[str, tuple[Statistic, Noise]] = {}
    for depth, (name, level) in enumerate(zip(hierarchy.levels, levels, strict=True)):
        if level.get("nodes") != hierarchy.size(depth):
            raise ValueError(
                f"hierarchy: it has {hierarchy.size(depth)} nodes at the level {name!r}, but the release has "
                f"{level.get('nodes')}; give the hierarchy of the release"
            )
        if level.get("measured") is not False:
            measured[name] = _level_noise(name, level)
    return measured


def published_range(spec: Mapping[str, Any], statement: Mapping[str, Any]) -> tuple[Invariants, int, int]:
    """Which numbers of groups are public, and the least and the greatest size: K that was measured, where it was."""
    invariants = spec.get("invariants")
    smallest, largest = spec.get("min_group_size"), spec.get("max_group_size")
    maximum = statement.get("maximum")
    if isinstance(largest, Mapping) and isinstance(maximum, Mapping):
        largest = maximum.get("max_group_size")
    if invariants not in get_args(Invariants):
        raise ValueError(f"release: its spec has invariants = {invariants!r}; {FRESH_COPY}")
    least = 0 if invariants == "groups" else 1
    if type(smallest) is not int or type(largest) is not int or not least <= smallest <= largest < 2**31 - 1:
        raise ValueError(
            f"release: its spec has min_group_size = {smallest!r} and max_group_size = {largest!r}; {FRESH_COPY}"
        )
    return cast(Invariants, invariants), smallest, largest


def read_measurements(
    release: Release, domain: SizesDomain, measured: Mapping[str, tuple[Statistic, Noise]]
) -> RecordedMeasurements:
    """All measurements of a release.

    Args:
        release: the release.
        domain: its public facts.
        measured: what was measured at each measured level, see `recorded_noise`.

    Raises:
        ValueError: the hierarchy is not the release's, or its measurements are not what was measured.
    """
    return RecordedMeasurements(
        {level: _read_level(release, domain, level, statistic, noise) for level, (statistic, noise) in measured.items()}
    )


def path_texts(table: pa.Table, hierarchy: Levels, depth: int, where: str, also: tuple[str, ...] = ()) -> pa.Table:
    """The path columns of a table of a release, as strings; dictionaries of strings stay.

    Raises:
        ValueError: a column is missing (one of `also` too), or has nulls.
        TypeError: a column of paths holds neither text nor integers.
    """
    names = hierarchy.path_columns(depth)
    for name in (*names, *also):
        if table.column_names.count(name) != 1:
            raise ValueError(
                f"{where}: there is no column {name!r}, only {', '.join(table.column_names) or 'none'}; {FRESH_COPY}"
            )
    return pa.table({name: _texts(table, name, where) for name in names})


def _texts(table: pa.Table, column: str, where: str) -> pa.Array | pa.ChunkedArray:
    """A column of paths, once none of it is null or other than text.

    Raises:
        ValueError: a null, or text that is not UTF-8.
        TypeError: neither text nor integers.
    """
    values = table.column(column)
    if pa.types.is_dictionary(values.type) and not values.null_count:
        labels = [pa.table({column: chunk.dictionary}) for chunk in values.chunks]
        for distinct in labels:
            text_column(distinct, column, where)
        return values
    return text_column(table, column, where)


FRESH_COPY = "give a release as tallytree wrote it"


def _level_noise(name: str, level: Mapping[str, Any]) -> tuple[Statistic, Noise]:
    """What a statement's entry of a measured level says.

    Raises:
        ValueError: it does not say it as statements do.
    """
    noise = level.get("noise")
    law = noise if isinstance(noise, Mapping) else {}
    scale = str(law.get("scale_exact"))
    statistic, distribution = level.get("statistic"), law.get("distribution")
    found = {"statistic": statistic, "noise.distribution": distribution, "noise.scale_exact": scale}
    exact = _FRACTION.fullmatch(scale) and int(scale.partition("/")[2] or 1) and Fraction(scale)
    right = (statistic in get_args(Statistic), distribution in get_args(Distribution), bool(exact))
    for (key, value), good in zip(found.items(), right, strict=True):
        if not good:
            raise ValueError(f"release: its statement has {key} = {value!r} at the level {name!r}; {FRESH_COPY}")
    return statistic, Noise(distribution, Fraction(exact))  # type: ignore[arg-type, return-value]


def _read_level(release: Release, domain: SizesDomain, level: str, statistic: Statistic, noise: Noise) -> Measurement:
    hierarchy = domain.hierarchy
    depth = hierarchy.levels.index(level)
    where = f"release: the measurements of {level!r}"
    table = release.measurements(level)
    paths = path_texts(table, hierarchy, depth, where, ("values", "std_dev"))
    _check_nodes(paths, table.num_rows, hierarchy, depth)
    values, offsets = _lists(table.column("values"), where)
    _check_lengths(np.diff(offsets), domain, depth, statistic, where)
    std_dev = table.column("std_dev")
    if std_dev.null_count or not pa.types.is_floating(std_dev.type):
        _refuse(where, f"std_dev holds {std_dev.type} with {std_dev.null_count} nulls where a number is wanted")
    wrong = np.flatnonzero(~np.isclose(std_dev.to_numpy(), noise.std_dev, rtol=1e-6, atol=0))
    if len(wrong):
        found = std_dev[int(wrong[0])].as_py()
        _refuse(where, f"std_dev is {found!r} where the statement's noise has {noise.std_dev!r}")
    return Measurement(level, statistic, np.arange(len(offsets) - 1, dtype=np.int64), values, offsets, noise)


def _check_nodes(paths: pa.Table, rows: int, hierarchy: Hierarchy, depth: int) -> None:
    """Refuse rows that are not about every node of the level, in order.

    Raises:
        ValueError: saying which node is doubled, missing, unknown or elsewhere.
    """
    level, size = hierarchy.levels[depth], hierarchy.size(depth)
    expected = hierarchy.path_table(depth, np.arange(size, dtype=np.int64))
    if rows == size and paths.equals(expected):
        return
    nodes = nodes_of_paths(paths, hierarchy, depth, rows, "measured")
    times = np.bincount(nodes, minlength=size)
    for amiss, text in ((times > 1, "is listed twice"), (times == 0, "is missing")):
        if amiss.any():
            _refuse(
                f"release: the measurements of {level!r}",
                f"the node {described_row(expected, int(np.argmax(amiss)))} {text}",
            )
    row = int(np.argmax(nodes != np.arange(size)))
    raise ValueError(
        f"hierarchy: node {row} of the level {level!r} is {described_row(expected, row)}, but in the release it is "
        f"{described_row(paths, row)}; list the leaves in the order in which they were when it was made"
    )


def nodes_of_paths(paths: pa.Table, tree: Levels, depth: int, rows: int, what: str = "published") -> IntArray:
    """The node of each row: int64 (rows,).

    Raises:
        ValueError: a row is about no node of the tree.
    """
    nodes = node_numbers(tree, depth, paths, rows)
    if (nodes < 0).any():
        raise ValueError(
            f"hierarchy: it has no node {described_row(paths, int(np.argmax(nodes < 0)))} at the level "
            f"{tree.levels[depth]!r}, which the release {what}; give the hierarchy of the release"
        )
    return nodes


def described_row(paths: pa.Table, row: int) -> str:
    """A node by its path, for a message."""
    labels = ((name, paths.column(name)[row].as_py()) for name in paths.column_names)
    return ", ".join(f"{name}={label!r}" for name, label in labels) or "of all"


def _lists(column: pa.ChunkedArray, where: str) -> tuple[IntArray, IntArray]:
    """The values of all rows, one after the other, and the offsets where each row's begin.

    Raises:
        ValueError: a null, or what is no list of integers within ±2^62.
    """
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_integer(kind.value_type):
        _refuse(where, f"values hold {kind} where lists of integers are wanted")
    if column.null_count:
        _refuse(where, f"values are null in {column.null_count} rows")
    cells = pc.list_flatten(column)
    if cells.null_count:
        _refuse(where, f"values have {cells.null_count} nulls in their lists")
    extremes = pc.min_max(cells).as_py()
    if len(cells) and not -MAX_VALUE <= extremes["min"] <= extremes["max"] <= MAX_VALUE:
        _refuse(where, f"values from {extremes['min']} to {extremes['max']} go beyond 2^62")
    offsets = np.zeros(len(column) + 1, dtype=np.int64)
    np.cumsum(pc.list_value_length(column).to_numpy(), out=offsets[1:])
    values = np.asarray(cells.cast(pa.int64()).to_numpy(), dtype=np.int64)
    values.flags.writeable = False
    return values, offsets


def _check_lengths(lengths: IntArray, domain: SizesDomain, depth: int, statistic: Statistic, where: str) -> None:
    """Refuse lists that do not have the cells that are measured of a node.

    Raises:
        ValueError: a list of another length.
    """
    groups = domain.groups[depth]
    expected = np.full(len(lengths), domain.width, dtype=np.int64)
    if statistic == "tail_counts" and groups is not None:
        expected -= 1
    elif statistic == "sorted_sizes":
        if groups is None:
            raise ValueError(f"{where}: sorted_sizes show numbers of groups, which are private here; {FRESH_COPY}")
        expected = groups
    wrong = np.flatnonzero(lengths != expected)
    if len(wrong):
        row = int(wrong[0])
        _refuse(where, f"row {row} has {lengths[row]} values where {statistic} have {expected[row]}")


def _refuse(where: str, what: str) -> NoReturn:
    raise ValueError(f"{where}: {what}; {FRESH_COPY}")
