"""Leaves found before or after grouping, for text or integers: the same statistics and refusals as a plain loop."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.inside import LeafKey
from tallytree.hierarchy import Hierarchy
from tallytree.private.engines import CountGroups, CountRecords, GroupRows, Local
from tallytree.private.tabulate import duckdb_session, statements

pytestmark = pytest.mark.slow
relaxed = settings(max_examples=35, suppress_health_check=[HealthCheck.too_slow])

LABELS = ["7", "007", "-7", "-0", "+7", "0", "9223372036854775807", "9223372036854775808", "a"]
INTEGERS = [7, -7, 0, 2**63 - 1, 8]
LEVELS = ["region", "town"]
WAYS = [0, statements.FEW_CELLS]
"""Leaves are found first, or paths are grouped first."""

Refusal = str | None
"""A part of the message of an error; None: no error."""


@st.composite
def hierarchies(draw: st.DrawFn) -> tuple[Hierarchy, list[tuple[str, str]]]:
    label = st.sampled_from(LABELS)
    leaves = draw(st.lists(st.tuples(label, label), min_size=1, max_size=6, unique=True))
    hierarchy = Hierarchy.from_table(pa.table(dict(zip(LEVELS, zip(*leaves, strict=True), strict=True))), LEVELS)
    return hierarchy, list(zip(*hierarchy.leaf_table().to_pydict().values(), strict=True))


def keys_of_records(
    draw: Any, leaves: list[tuple[str, str]], rows: int
) -> tuple[list[pa.Array], list[tuple[Any, Any]]]:
    """Columns of text or integers, mostly in the hierarchy; and the paths as text."""
    columns = []
    for place in range(2):
        as_text = draw(st.booleans())
        value = st.sampled_from([leaf[place] for leaf in leaves] * 3 + ["7", "b"] if as_text else INTEGERS)
        value = draw(st.sampled_from([value, value, st.none() | value]))
        values = draw(st.lists(value, min_size=rows, max_size=rows))
        kind = pa.string() if as_text else draw(st.sampled_from([pa.int64(), pa.decimal128(20, 0)]))
        columns.append(pa.array(values, pa.string() if as_text else pa.int64()).cast(kind))
    texts = [[None if value is None else str(value) for value in column.to_pylist()] for column in columns]
    return columns, list(zip(*texts, strict=True))


def refusal(
    paths: list[tuple[Any, ...]], leaves: list[tuple[str, str]], others: dict[str, list[Any]], drop: bool
) -> Refusal:
    """What is refused: nulls column by column, in order, and then the first path outside the hierarchy.

    With `drop` neither is.
    """
    for place, level in enumerate(LEVELS):
        if not drop and any(path[place] is None for path in paths):
            return f"column {level!r} has null keys"
    for column, values in others.items():
        if any(value is None for value in values):
            return f"column {column!r}"
    unknown = [] if drop else sorted(path for path in paths if path not in leaves)
    if unknown:
        level = "town" if unknown[0][0] in {leaf[0] for leaf in leaves} else "region"
        return f"by its label of {level!r}, which"
    return None


def refused_or(work: Any, says: Refusal) -> Any:
    """The result, or None after the expected error."""
    if says is None:
        return work()
    with pytest.raises(ValueError) as error:
        work()
    assert says in str(error.value)
    return None


@given(st.data(), st.sampled_from(WAYS), st.booleans(), st.booleans())
@relaxed
def test_sums_of_numbers_by_leaf(data: st.DataObject, few: int, drop: bool, as_stream: bool) -> None:
    hierarchy, leaves = data.draw(hierarchies())
    rows = data.draw(st.integers(0, 8))
    columns, paths = keys_of_records(data.draw, leaves, rows)
    number = data.draw(st.sampled_from([st.integers(0, 5), st.integers(0, 5), st.none() | st.integers(0, 5)]))
    numbers = data.draw(st.lists(number, min_size=rows, max_size=rows))
    table = pa.table([*columns, pa.array(numbers, pa.int32())], [*LEVELS, "n"])
    says = refusal(paths, leaves, {"n": numbers}, drop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "FEW_CELLS", few)
        patch.setattr("tallytree.private.tabulate.records.require_types_that_meet", lambda *_, **__: None)
        found = refused_or(
            lambda: Local(threads=2).tabulate(
                table.to_reader(max_chunksize=3) if as_stream else table,
                CountRecords([LeafKey(hierarchy, tuple(LEVELS))], count="n", on_unknown="drop" if drop else "error"),
            ),
            says,
        )
    if found is not None:
        oracle: Counter[int] = Counter()
        for path, value in zip(paths, numbers, strict=True):
            if path in leaves:
                oracle[leaves.index(path)] += value
        assert dict(zip(found.parts[0].tolist(), found.counts.tolist(), strict=True)) == dict(sorted((+oracle).items()))


@given(st.data(), st.sampled_from(WAYS), st.booleans())
@relaxed
def test_stated_groups_by_leaf_and_size(data: st.DataObject, few: int, drop: bool) -> None:
    hierarchy, leaves = data.draw(hierarchies())
    rows = data.draw(st.integers(0, 8))
    columns, paths = keys_of_records(data.draw, leaves, rows)
    number = data.draw(st.sampled_from([st.integers(0, 5), st.integers(0, 5), st.none() | st.integers(-1, 5)]))
    sizes, groups = (data.draw(st.lists(number, min_size=rows, max_size=rows)) for _ in range(2))
    table = pa.table([*columns, pa.array(sizes, pa.int64()), pa.array(groups, pa.int64())], [*LEVELS, "s", "n"])
    at_fault = {
        name: [None if value is None or value < 0 else value for value in values]
        for name, values in (("s", sizes), ("n", groups))
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "FEW_CELLS", few)
        patch.setattr("tallytree.private.tabulate.records.require_types_that_meet", lambda *_, **__: None)
        found = refused_or(
            lambda: Local(threads=2).tabulate(
                table,
                GroupRows(
                    LeafKey(hierarchy, tuple(LEVELS)),
                    size="s",
                    groups="n",
                    smallest=1,
                    largest=3,
                    on_unknown="drop" if drop else "error",
                ),
            ),
            refusal(paths, leaves, at_fault, drop),
        )
    if found is not None:
        oracle: Counter[tuple[int, int]] = Counter()
        for path, size, number_of in zip(paths, sizes, groups, strict=True):
            if path in leaves:
                oracle[leaves.index(path), min(max(size, 1), 3)] += number_of
        cells = zip(found.leaves.tolist(), found.sizes.tolist(), strict=True)
        assert list(zip(cells, found.groups.tolist(), strict=True)) == sorted((+oracle).items())


@given(st.data(), st.booleans())
@relaxed
def test_groups_of_members(data: st.DataObject, drop: bool) -> None:
    hierarchy, leaves = data.draw(hierarchies())
    rows = data.draw(st.integers(0, 8))
    columns, paths = keys_of_records(data.draw, leaves, rows)
    ids = data.draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    quantities = data.draw(st.lists(st.integers(0, 5), min_size=rows, max_size=rows))
    table = pa.table([*columns, pa.array(ids, pa.int64()), pa.array(quantities, pa.int64())], [*LEVELS, "id", "q"])
    of_group: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for path, each, quantity in zip(paths, ids, quantities, strict=True):
        if path in leaves:
            of_group[each].append((leaves.index(path), min(quantity, 3)))
    says = refusal(paths, leaves, {"id": ids}, drop)
    if says is None and any(len({leaf for leaf, _ in members}) > 1 for members in of_group.values()):
        says = "a group (column 'id') has records in more than one leaf"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tallytree.private.tabulate.records.require_types_that_meet", lambda *_, **__: None)
        found = refused_or(
            lambda: Local(threads=2).tabulate(
                table,
                CountGroups(
                    LeafKey(hierarchy, tuple(LEVELS)),
                    group="id",
                    quantity="q",
                    max_quantity=3,
                    smallest=0,
                    largest=4,
                    on_unknown="drop" if drop else "error",
                ),
            ),
            says,
        )
    if found is not None:
        oracle = Counter((members[0][0], min(sum(q for _, q in members), 4)) for members in of_group.values())
        cells = zip(found.leaves.tolist(), found.sizes.tolist(), strict=True)
        assert list(zip(cells, found.groups.tolist(), strict=True)) == sorted(oracle.items())


@pytest.mark.parametrize("few", WAYS)
def test_text_of_records_is_kept_only_where_a_message_may_need_it(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of two regions: what is kept of each row is numbers; of a stranger, its path."""
    kept: list[list[Any]] = []
    make = duckdb_session.DuckDBSession.make

    def made(self: Any, name: str, query: str, **parameters: Any) -> None:
        make(self, name, query, **parameters)
        kept.append(self.run(f"SELECT * FROM {name}"))

    monkeypatch.setattr(duckdb_session.DuckDBSession, "make", made)
    monkeypatch.setattr(statements, "FEW_CELLS", few)
    hierarchy = Hierarchy.from_table(pa.table({"region": ["a", "b"], "town": ["x", "y"]}), LEVELS)
    table = pa.table({"region": ["a", "b", "b", "c"], "town": ["x", "y", "y", "z"]})
    key = LeafKey(hierarchy, tuple(LEVELS))
    Local().tabulate(table, CountRecords([key], on_unknown="drop"))
    assert sorted(kept.pop(), key=str) == [(0, 0, None, 1), (1, 0, None, 2), (None, 3, None, 1)]
    with pytest.raises(ValueError, match="by its label of 'region', which the hierarchy does not have; add"):
        Local().tabulate(table, CountRecords([key]))
    assert sorted(kept.pop(), key=str) == [(0, 0, None, 1), (1, 0, None, 2), (None, 3, ["c", "z"], 1)]
