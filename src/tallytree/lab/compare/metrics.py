"""Errors of released tables against true ones. Only the owner of the true data can compute them.

Tables are as `Release.table` gives them: path columns, then `count`, or `size` and `groups`. Rows may be in any order.
Rows with the same path (and size) are added up; a path (or size) without a row counts as 0. Numbers of groups may be
fractions, or negative.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallytree.hierarchy import RESERVED
from tallytree.lab.compare import count_errors as of_counts
from tallytree.support.arrays import IntArray, NumberArray, sum_by_key


def absolute_errors(released: pa.Table, true: pa.Table) -> IntArray:
    """|released − true| of every node that has a row in either table: int64 (nodes,)."""
    first, second = paired_counts(released, true)
    errors: IntArray = np.abs(first - second)
    return errors


def max_absolute_error(released: pa.Table, true: pa.Table) -> int:
    """The greatest |released − true| over all nodes (Boninsegna and Silvestri 2025, equation 2)."""
    return of_counts.max_error(*paired_counts(released, true))


def false_discovery_rate(released: pa.Table, true: pa.Table) -> float:
    """The share of the nodes released as positive that have no records: in [0, 1], 0 where none is released."""
    return of_counts.false_discoveries(*paired_counts(released, true))


def false_negative_rate(released: pa.Table, true: pa.Table) -> float:
    """The share of the nodes with records that are released as 0, or not at all: in [0, 1], 0 where none has any."""
    return of_counts.false_negatives(*paired_counts(released, true))


def mean_absolute_error(released: pa.Table, true: pa.Table, *, n_nodes: int | None = None) -> float:
    """The mean of |released − true| over the nodes of a level (Boninsegna and Silvestri 2025's published results).

    Args:
        released: a level of a release.
        true: the same level of the true data.
        n_nodes: how many nodes the level has, including those without a row in either table, as in tables of flows; by
            default the number of nodes with a row. `release.statement["levels"]` has it.

    Raises:
        ValueError: fewer nodes than have a row.
    """
    counts = paired_counts(released, true)
    listed = len(counts[0])
    if n_nodes is not None and n_nodes < listed:
        raise ValueError(f"n_nodes: {n_nodes} is less than the {listed} nodes in the tables; give the level's")
    return of_counts.mean_error(*counts, listed if n_nodes is None else n_nodes)


def earth_movers_distance(released: pa.Table, true: pa.Table) -> NumberArray:
    """The number of members to add or remove to turn one table into the other, for every node: int64 (nodes,).

    Σ_s |T_s − T'_s|, with T_s the number of groups of size ≥ s ≥ 1 (Kuo et al. 2018, Lemma 1): where both have the same
    number of groups this is the distance of their cumulative histograms. Groups of size 0 do not matter. Where a table
    has fractions of groups it is float64, and where it has negative numbers, T'_s may rise with s: the sum is the same.
    """
    tables = (released, true)
    nodes, n_nodes = _number_paths(tables)
    sizes = [table["size"].to_numpy().astype(np.int64) for table in tables]
    groups = [_numbers(table, "groups") for table in tables]
    width = max((int(size.max(initial=0)) for size in sizes), default=0) + 1
    # Largest size first within each node: the running sum of the differences is then that of the tail counts.
    keys = np.concatenate([node * width + (width - 1 - size) for node, size in zip(nodes, sizes, strict=True)])
    keys, differences = sum_by_key(keys, np.concatenate([groups[0], -groups[1]]))
    node, reversed_size = np.divmod(keys, width)
    size = width - 1 - reversed_size
    first = np.searchsorted(node, np.arange(n_nodes))
    running = np.cumsum(differences)
    tail = running - np.repeat(running[first] - differences[first], np.diff(np.append(first, len(node))))
    next_size = np.append(size[1:], 0)
    next_size[np.append(first[1:], len(node)) - 1] = 0
    return np.add.reduceat(np.abs(tail) * (size - next_size), first) if n_nodes else np.empty(0, dtype=tail.dtype)


def paired_counts(released: pa.Table, true: pa.Table) -> tuple[IntArray, IntArray]:
    """Released and true counts of every node that has a row in either table, in one order: int64 (nodes,) each."""
    nodes, n_nodes = _number_paths((released, true))
    counts = [np.zeros(n_nodes, dtype=np.int64) for _ in range(2)]
    for total, table, node in zip(counts, (released, true), nodes, strict=True):
        np.add.at(total, node, table["count"].to_numpy().astype(np.int64))
    return counts[0], counts[1]


def _number_paths(tables: Sequence[pa.Table]) -> tuple[list[npt.NDArray[np.int64]], int]:
    """Number the paths that occur in any of the tables, alike in all; and how many there are."""
    path = [column for column in tables[0].column_names if column not in RESERVED]
    for table in tables:
        missing = [column for column in path if column not in table.column_names]
        if missing:
            raise ValueError(f"true: column {missing[0]!r} is missing; both tables need the path columns {path}")
    rows = [table.num_rows for table in tables]
    number = np.zeros(sum(rows), dtype=np.int64)
    for column in path:
        chunks = [chunk for table in tables for chunk in table[column].cast(pa.large_string()).chunks]
        labels = pa.chunked_array(chunks, pa.large_string()).combine_chunks().dictionary_encode()
        keys = pa.array(number * len(labels.dictionary) + labels.indices.to_numpy())
        number = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    return np.split(number, np.cumsum(rows)[:-1]), int(number.max(initial=-1)) + 1


def l1_error(released: pa.Table, true: pa.Table) -> int | float:
    """Σ_nodes,sizes |groups − groups'| of two tables of one level (Fioretto et al. 2021, section 11: Σ_r ‖n^r − n̂^r‖₁).

    For tables of counts: Σ_nodes |count − count'|. Groups of size 0 count where they are listed. A float where a table
    has fractions of groups.
    """
    error: int | float = np.abs(_differences(released, true, "true")).sum().item()
    return error


def constraint_violations(parent_table: pa.Table, child_table: pa.Table) -> int:
    """How many (parent, size) have other groups than their children have together (Fioretto et al. 2021, Table 7, #CV).

    For tables of counts: how many parents. A hierarchy's violations are the sum over its pairs of levels. Fractions are
    compared to the last digit: those of a release are multiples of a power of two, whose sums are exact.

    Args:
        parent_table: a level.
        child_table: the next level, whose path columns start with the parent's.
    """
    path = [column for column in parent_table.column_names if column not in RESERVED]
    child_path = [column for column in child_table.column_names if column not in RESERVED]
    if child_path[: len(path)] != path:
        raise ValueError(
            f"child_table: its path columns {child_path} do not start with those of parent_table, {path}; "
            "give a level and the level below it, in this order"
        )
    return int(np.count_nonzero(_differences(parent_table, child_table, "child_table")))


def _numbers(table: pa.Table, column: str) -> NumberArray:
    """A column of numbers of groups, or counts: float64 if it may hold fractions, int64 otherwise."""
    kind = np.float64 if pa.types.is_floating(table.schema.field(column).type) else np.int64
    numbers: NumberArray = table[column].to_numpy().astype(kind)
    return numbers


def _differences(first: pa.Table, second: pa.Table, name: str) -> NumberArray:
    """First − second of every node, or node and size, that has a row in either; the second may be of a lower level."""
    tables = (first, second)
    nodes, _ = _number_paths(tables)
    value = "groups" if "groups" in first.column_names else "count"
    for column in ("size", "groups") if value == "groups" else ("count",):
        if column not in second.column_names:
            raise ValueError(f"{name}: column {column!r} is missing; both tables need it, as both are of one statistic")
    values = [_numbers(table, value) for table in tables]
    keys = np.concatenate(nodes)
    if value == "groups":
        size = np.concatenate([table["size"].to_numpy().astype(np.int64) for table in tables])
        keys = keys * (int(size.max(initial=0)) + 1) + size
    return sum_by_key(keys, np.concatenate([values[0], -values[1]]))[1]
