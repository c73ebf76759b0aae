"""Of every person at most m memberships of groups count: which ones, and how far one person moves the group sizes."""

from __future__ import annotations

import hashlib
import itertools
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import ContributionBound, LeafKey, SizesArguments, plan_group_sizes, sensitivity
from helpers.tabulating import group_sizes
from tallytree.engines import Local
from tallytree.hierarchy import Hierarchy

KEY = bytes(range(32))
LEAVES = ["x", "y"]
HOME_IN = {"h1": "x", "h2": "x", "h,3": "y", "4": "y"}
places = Hierarchy.from_table(pa.table({"leaf": LEAVES}), ["leaf"])
PLACE = LeafKey(places, ("leaf",))
relaxed = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])

Row = tuple[str, str, int]
"""A person's id, a group, and a quantity."""

row = st.tuples(st.sampled_from(["ann", "bob", "7", "77"]), st.sampled_from([*HOME_IN, "away"]), st.integers(0, 3))


def table_of(rows: list[Row]) -> pa.Table:
    who, home, cars = ([each[column] for each in rows] for column in range(3))
    leaf = [HOME_IN.get(each, "outside") for each in home]
    text = pa.string()
    columns = {"who": pa.array(who, text), "home": pa.array(home, text), "leaf": pa.array(leaf, text)}
    return pa.table(columns | {"cars": pa.array(cars, pa.int64())})


def sizes(records: Any, most: int, *, z: int = 2, key: bytes = KEY, threads: int = 2) -> Counter[tuple[str, int]]:
    """Groups per (leaf, size)."""
    found = group_sizes(
        Local(threads=threads), records, PLACE, group="home", quantity="cars", max_quantity=z, smallest=0, largest=50,
        on_unknown="drop", bound=ContributionBound("who", most, key),
    )  # fmt: skip
    runs = zip(found.leaves.tolist(), found.sizes.tolist(), found.groups.tolist(), strict=True)
    return Counter({(LEAVES[leaf], size): groups for leaf, size, groups in runs})


def oracle(rows: list[Row], most: int, z: int, key: bytes) -> Counter[tuple[str, int]]:
    """What is said in `tallytree.private.tabulate.contribution_bound`, in plain Python."""
    members: dict[str, int] = {home: 0 for _, home, _ in rows if home in HOME_IN}
    cells: dict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
    for person, home, cars in rows:
        if home in HOME_IN and cars:
            cells[person][home, min(cars, z)] += 1
    for person, theirs in cells.items():

        def place(cell: tuple[str, int], person: str = person) -> bytes:
            home, cars = cell
            content = f"{LEAVES.index(HOME_IN[home])},{cars},{len(home.encode())},{home}{person}"
            return hashlib.sha256(key + content.encode()).digest()

        room = most
        for home, cars in sorted(theirs, key=place):
            taken = min(theirs[home, cars], room)
            room -= taken
            members[home] += taken * cars
    return Counter((HOME_IN[home], size) for home, size in members.items())


@pytest.mark.slow
@given(
    st.lists(row, max_size=20), st.integers(1, 4), st.integers(1, 3), st.binary(min_size=32, max_size=32), st.randoms()
)
@relaxed
def test_what_counts_is_what_a_dictionary_counts_whatever_the_order_threads_and_files(
    rows: list[Row], most: int, z: int, key: bytes, random: Any
) -> None:
    right = oracle(rows, most, z, key)
    shuffled = random.sample(rows, len(rows))
    assert sizes(table_of(rows), most, z=z, key=key) == right
    assert sizes(table_of(shuffled), most, z=z, key=key, threads=1) == right
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(table_of(shuffled[::2]), Path(folder) / "a.parquet", row_group_size=2)
        table_of(shuffled[1::2]).to_pandas().to_csv(Path(folder) / "b.csv", index=False)
        assert sizes(Path(folder) / "a.parquet", most, z=z, key=key) == oracle(shuffled[::2], most, z, key)
        assert sizes(Path(folder) / "b.csv", most, z=z, key=key) == oracle(shuffled[1::2], most, z, key)


def test_a_person_in_many_groups_counts_in_m_of_them() -> None:
    rows = [("ann", home, 1) for home in HOME_IN] + [("bob", "h1", 1)]
    for most in (1, 2, 3, 4, 9):
        found = sizes(table_of(rows), most)
        assert sum(size * groups for (_, size), groups in found.items()) == min(most, 4) + 1
        assert sum(found.values()) == 4  # a group of which nobody counts has size 0
    assert len({tuple(sorted(sizes(table_of(rows), 1, key=bytes([n]) * 32).items())) for n in range(6)}) > 1


def test_whether_a_group_has_two_leaves_does_not_depend_on_who_counts() -> None:
    table = pa.table({"who": [1, 1], "home": ["h", "h"], "leaf": ["x", "y"]})
    for n in range(4):
        with pytest.raises(ValueError, match=r"a group \(column 'home'\) has records in more than one leaf"):
            group_sizes(
                Local(),
                table,
                PLACE,
                group="home",
                smallest=0,
                largest=9,
                bound=ContributionBound("who", 1, bytes([n]) * 32),
            )


def test_ids_of_people_must_be_there_and_are_not_told() -> None:
    table = pa.table({"who": ["ann", None], "home": ["h", "h"], "leaf": ["x", "x"]})
    with pytest.raises(ValueError, match=r"column 'who' \(person\) has null ids") as caught:
        group_sizes(Local(), table, PLACE, group="home", smallest=0, largest=9, bound=ContributionBound("who", 1, KEY))
    assert "ann" not in str(caught.value)


# --- How far one person moves the statistics ---

OTHERS: list[list[Row]] = [[("bob", "h1", 1), ("cy", "h1", 3), ("bob", "h,3", 1), ("bob", "4", 2)], [("bob", "h2", 1)]]
ROWS_OF_ANN: list[Row] = [("ann", "h1", 1), ("ann", "h1", 2), ("ann", "h2", 1), ("ann", "h,3", 3)]
PUBLIC = pa.table({"leaf": LEAVES, "groups": [3, 2]})


def statistics(rows: list[Row], m: int, z: int, smallest: int, public: bool) -> dict[tuple[str, str], np.ndarray]:
    """Every statistic of every level, for one fixed key (a seed): what a plan could have measured."""
    options: dict[str, Any] = {"public_groups": PUBLIC} if public else {}
    quantity = {"quantity": "cars", "max_quantity": z}
    arguments = SizesArguments(
        table_of(rows), places, tt.Budget(epsilon=1), neighboring="add_remove", group="home", person="who",
        max_contributions=m, max_group_size=4, min_group_size=smallest, seed=5, engine=Local(threads=1),
        contributions=tt.Contributions(0.1, m + 2), **quantity, **options,
    )  # fmt: skip
    found = plan_group_sizes(arguments).tabulate()
    kinds = ["tail_counts", "histogram", "chain_tail_counts", *(["sorted_sizes"] if public else [])]
    cells = {
        (level, kind): found.true.cells(level, np.arange(places.size(depth)), kind)[0]  # type: ignore[arg-type]
        for depth, level in enumerate(places.levels)
        for kind in kinds
    }
    root = np.zeros(1, dtype=np.int64)
    cells["all", "largest_size"] = found.true.largest_size().cells("all", root, "largest_size")[0]
    assert found.contributions is not None
    cells["all", "contributions"] = found.contributions.cells("all", root, "contributions")[0]
    return cells


@pytest.mark.slow
@pytest.mark.parametrize(("m", "z", "smallest", "public"), [(1, 2, 0, True), (2, 2, 1, False), (2, 1, 2, True)])
def test_one_person_moves_what_counts_by_no_more_than_is_stated(m: int, z: int, smallest: int, public: bool) -> None:
    """Every pair of neighbors: what ann's rows may be, up to three of four kinds of rows, beside two sets of others."""
    reached: dict[tuple[str, str], int] = {}
    for others, most in zip(OTHERS, (3, 2), strict=True):
        sizes = range(most + 1)
        ways = [list(way) for size in sizes for way in itertools.combinations_with_replacement(ROWS_OF_ANN, size)]
        found = [statistics([*others, *way], m, z, smallest, public) for way in ways]
        for relation in ("add_remove", "change_one"):
            for level, kind in found[0]:
                bound = sensitivity(kind, relation, m, max_quantity=z, nodes=1 if level == "all" else 2)  # type: ignore[arg-type]
                every = np.array([cells[level, kind] for cells in found])
                apart = every[:1] - every if relation == "add_remove" else every[:, None] - every[None]
                apart = apart.reshape(-1, every.shape[1])
                assert np.abs(apart).sum(axis=1).max() <= bound.l1, (level, kind, relation)
                assert (apart * apart).sum(axis=1).max() <= bound.l2_squared, (level, kind, relation)
                reached[kind, relation] = max(reached.get((kind, relation), 0), int(np.abs(apart).sum(axis=1).max()))
    assert reached["contributions", "add_remove"] == 1
    assert reached["contributions", "change_one"] == 2
    assert reached["tail_counts", "add_remove"] >= m  # the enumeration has cases that matter
