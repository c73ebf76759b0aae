import functools
import itertools
import logging
import operator
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import (
    KeyedNoise,
    Measurer,
    OpenDPNoise,
    TrueCounts,
    TrueSizes,
    plan_noise,
    plan_stability,
    sensitivity,
)
from tallytree.release import released_tables as measured_module
from tallytree.release.released_tables import MeasuredTable
from tallytree.sizes import SizesDomain
from tallytree.sources.leaf_paths import decoded

AREAS = tt.Hierarchy.from_table(pa.table({"s": ["A", "A", "B"], "c": ["x", "y", "x"]}), ["s", "c"])
KEY = bytes(range(32))


class NoNoise:
    """A source that adds nothing, to see the true statistics."""

    def draw(self, noise, address, cells):
        return np.zeros(len(cells), dtype=np.int64)


def plan(statistics, budget=None):
    bounds = {level: (statistic, sensitivity(statistic, "add_remove")) for level, statistic in statistics.items()}
    return plan_noise(budget or tt.Budget(epsilon=1), bounds)


def counts_measurer(source):
    statistics = TrueCounts(AREAS, np.array([2, 0]), np.array([5, 7]))
    return Measurer(statistics, plan({"all": "total", "s": "counts", "c": "counts"}), source)


def test_counts_add_up_over_the_tree_and_absent_nodes_are_zero():
    measurer = counts_measurer(NoNoise())
    assert measurer.measure("all", np.array([0]), "total").values.tolist() == [12]
    assert measurer.measure("s", np.array([1, 0]), "counts").values.tolist() == [5, 7]
    assert measurer.measure("c", np.arange(3), "counts").values.tolist() == [7, 0, 5]


def test_only_what_was_planned_is_measured():
    measurer = counts_measurer(KeyedNoise(KEY))
    with pytest.raises(tt.BudgetExceeded, match="'histogram' at level 's' is not in the plan"):
        measurer.measure("s", np.array([0]), "histogram")
    with pytest.raises(tt.BudgetExceeded, match="at level 'elsewhere' is not in the plan"):
        measurer.measure("elsewhere", np.array([0]), "counts")
    assert measurer.taken == ()


def test_measuring_a_cell_again_gives_the_same_noise():
    measurer = counts_measurer(KeyedNoise(KEY))
    whole = measurer.measure("c", np.arange(3), "counts").values
    assert [int(measurer.measure("c", np.array([i]), "counts").values[0]) for i in range(3)] == whole.tolist()


def test_opendp_noise_is_not_drawn_twice_for_a_cell():
    pytest.importorskip("opendp")
    measurer = counts_measurer(OpenDPNoise())
    measurer.measure("c", np.array([0, 1]), "counts")
    measurer.measure("c", np.array([2]), "counts")
    with pytest.raises(tt.BudgetExceeded, match="was measured before"):
        measurer.measure("c", np.array([1]), "counts")
    with pytest.raises(tt.BudgetExceeded, match="was measured before"):
        measurer.measure("s", np.array([1, 1]), "counts")


@pytest.mark.parametrize("nodes", [[3], [-1], [0, 2**40]])
def test_nodes_that_the_level_does_not_have_are_refused_before_anything_is_read(nodes):
    domain = SizesDomain.from_leaves(AREAS, np.array([1, 0, 0]), 0, 4)
    true = TrueSizes(AREAS, np.array([0]), np.array([1]), np.array([1]), domain.groups, 0, 4)
    for measurer, statistic in (
        (counts_measurer(KeyedNoise(KEY)), "counts"),
        (Measurer(true, plan({"c": "tail_counts"}), KeyedNoise(KEY)), "tail_counts"),
    ):
        with pytest.raises(ValueError, match="nodes: .* must lie between 0 and 2"):  # noqa: RUF043
            measurer.measure("c", np.array(nodes), statistic)
        assert measurer.taken == ()
    with pytest.raises(TypeError, match="must be a flat array of integers"):
        counts_measurer(KeyedNoise(KEY)).measure("c", np.array([0.5]), "counts")


def test_a_value_that_noise_could_wrap_around_is_refused_before_any_draw():
    class Drawn:
        def draw(self, noise, address, cells):
            raise AssertionError("noise was drawn")

    said = set()
    for true in (2**62 + 1, 2**62 + 12_345):
        statistics = TrueCounts(AREAS, np.array([0]), np.array([true]))
        with pytest.raises(OverflowError, match="a value at level 'c' is beyond 2\\^62") as caught:
            Measurer(statistics, plan({"c": "counts"}), Drawn()).measure("c", np.array([0]), "counts")
        said.add(str(caught.value))
    assert len(said) == 1


@pytest.mark.parametrize("budget", [tt.Budget(epsilon=0.01), tt.Budget(rho=1e-5)], ids=["laplace", "gaussian"])
def test_noise_does_not_depend_on_the_true_value(budget):
    """Counts of 0 to 2^60: each has exactly the noise that the source draws for its cell."""
    source, nodes = KeyedNoise(KEY), np.arange(3)
    for true in (0, 1, 1_001, 10**4, 10**6, 10**9, 2**60):
        counts = TrueCounts(AREAS, nodes, np.full(3, true))
        for level in ("s", "c"):
            here = nodes[: counts.size(level)]
            noisy = Measurer(counts, plan({level: "counts"}, budget), source).measure(level, here, "counts")
            drawn = source.draw(noisy.noise, (level, "counts"), here)
            assert (noisy.values - counts.cells(level, here, "counts")[0]).tolist() == drawn.tolist()
            assert len(set(drawn.tolist())) > 1


def test_noise_above_a_threshold_does_not_depend_on_the_true_value():
    budget = tt.Budget(epsilon=0.01, delta=1e-6)
    stable = plan_stability(budget, "c", sensitivity("stable_counts", "add_remove"), 1)
    drawn = KeyedNoise(KEY).draw(stable.stable.noise, ("c", "stable_counts"), np.arange(3))
    for true in (10**4, 10**6, 10**9, 2**60):
        counts = TrueCounts(AREAS, np.arange(3), np.full(3, true))
        noisy = Measurer(counts, stable, KeyedNoise(KEY)).measure_stable("c")
        assert (noisy.values - true).tolist() == drawn.tolist()


def test_an_array_that_listens_hears_nothing():
    heard = []

    class Listener(np.ndarray):
        def __array_ufunc__(self, *arguments, **options):
            heard.append(arguments)
            return NotImplemented

        def __array_function__(self, *arguments, **options):
            heard.append(arguments)
            return NotImplemented

    nodes = np.arange(3).view(Listener)
    measured = counts_measurer(NoNoise()).measure("c", nodes, "counts")
    assert measured.values.tolist() == [7, 0, 5]
    assert heard == []


def test_a_name_that_lies_about_itself_gets_what_was_planned():
    class Liar(str):
        __slots__ = ()

        def __ne__(self, other):
            return False

        __eq__ = str.__eq__
        __hash__ = str.__hash__

    with pytest.raises(tt.BudgetExceeded, match="is not in the plan"):
        counts_measurer(NoNoise()).measure("c", np.arange(3), Liar("histogram"))


def test_nodes_changed_after_they_were_measured_change_nothing():
    measurer = counts_measurer(NoNoise())
    nodes = np.arange(3)
    measurer.measure("c", nodes, "counts")
    nodes[:] = 1
    assert measurer.taken[0].nodes.tolist() == [0, 1, 2]


def test_levels_and_keys_have_noise_of_their_own():
    same = TrueCounts(AREAS, np.array([0]), np.array([1]))
    wide = plan({"s": "counts", "c": "counts"}, tt.Budget(epsilon=0.01))
    first, second = (Measurer(same, wide, KeyedNoise(key)) for key in (KEY, KEY[::-1]))
    draws = [m.measure(level, np.array([0]), "counts").values[0] for m in (first, second) for level in ("s", "c")]
    assert len(set(draws)) == 4


def test_measurements_cannot_be_altered_afterwards():
    measured = counts_measurer(KeyedNoise(KEY)).measure("s", np.array([0]), "counts")
    with pytest.raises(ValueError, match="read-only"):
        measured.values[0] = 0


def test_nothing_private_is_shown_or_logged(caplog):
    with caplog.at_level(logging.DEBUG):
        measurer = Measurer(TrueCounts(AREAS, np.array([1]), np.array([987654321])), plan({"c": "counts"}), NoNoise())
        measurer.measure("c", np.array([1]), "counts")
    shown = caplog.text + repr(measurer) + repr(KeyedNoise(KEY)) + repr(TrueCounts(AREAS, np.array([1]), np.array([5])))
    assert "987654321" not in shown
    assert str(KEY) not in shown


sizes_by_leaf = st.lists(st.lists(st.integers(0, 6), max_size=5), min_size=3, max_size=3)


@settings(max_examples=60)
@given(sizes_by_leaf, st.integers(0, 2), st.integers(3, 6))
def test_statistics_of_group_sizes_equal_their_definitions(groups, smallest, largest):
    clamped = [np.clip(np.array(leaf, dtype=np.int64), smallest, largest) for leaf in groups]
    leaves = np.repeat(np.arange(3), [len(leaf) for leaf in groups])
    sizes = np.concatenate(clamped)
    domain = SizesDomain.from_leaves(AREAS, np.array([len(leaf) for leaf in groups]), smallest, largest)
    true = TrueSizes(AREAS, leaves, sizes, np.ones(len(sizes), np.int64), domain.groups, smallest, largest)
    members = {"all": [[0, 1, 2]], "s": [[0, 1], [2]], "c": [[0], [1], [2]]}
    for level, nodes in members.items():
        asked = np.arange(len(nodes))[::-1]
        expected = {
            "tail_counts": lambda own: [(own >= s).sum() for s in range(smallest + 1, largest + 1)],
            "histogram": lambda own: [(own == s).sum() for s in range(smallest, largest + 1)],
            "sorted_sizes": np.sort,
        }
        for statistic, definition in expected.items():
            values, offsets, cells = true.cells(level, asked, statistic)
            for i, node in enumerate(asked):
                own = np.concatenate([clamped[leaf] for leaf in nodes[node]])
                assert values[offsets[i] : offsets[i + 1]].tolist() == list(definition(own))
            assert len(set(cells.tolist())) == len(cells) == len(values)


def test_a_cell_has_the_same_number_however_nodes_are_chunked():
    leaves, sizes = np.array([0, 0, 1, 2]), np.array([1, 2, 2, 3])
    domain = SizesDomain.from_leaves(AREAS, np.array([2, 1, 1]), 0, 4)
    true = TrueSizes(AREAS, leaves, sizes, np.ones(4, np.int64), domain.groups, 0, 4)
    for statistic in ("tail_counts", "histogram", "sorted_sizes"):
        whole = true.cells("c", np.arange(3), statistic)[2].tolist()
        parts = [true.cells("c", np.array([i]), statistic)[2].tolist() for i in range(3)]
        assert whole == functools.reduce(operator.iadd, parts, [])


def size_measurer(source=None, groups=(5, 0, 8), largest=6, invariants="groups", statistic="sorted_sizes"):
    """Measures one statistic at the lowest level, of some groups of sizes 1 … largest."""
    leaves = np.repeat(np.arange(3), groups)
    sizes = 1 + np.arange(len(leaves)) % largest
    domain = SizesDomain.from_leaves(AREAS, np.array(groups), 1, largest, invariants)
    true = TrueSizes(AREAS, leaves, sizes, np.ones(len(sizes), np.int64), domain.groups, 1, largest)
    return Measurer(true, plan({"c": statistic}, tt.Budget(epsilon=0.1)), source or KeyedNoise(KEY))


@settings(max_examples=60)
@given(st.sampled_from(["sorted_sizes", "tail_counts", "histogram", "chain_tail_counts"]), st.data())
def test_parts_of_a_node_are_the_whole_with_its_noise(statistic, data):
    measurer = size_measurer(statistic=statistic, largest=9)
    node = data.draw(st.sampled_from([0, 2]))
    whole = size_measurer(statistic=statistic, largest=9).measure("c", np.array([node]), statistic).values
    cuts = [0, *sorted(data.draw(st.sets(st.integers(1, len(whole) - 1)))), len(whole)]
    found = []
    for first, stop in itertools.pairwise(cuts):
        part = measurer.measure("c", np.array([node]), statistic, (first, stop))
        assert (part.first_cell, part.offsets.tolist()) == (first, [0, stop - first])
        found += part.values.tolist()
    assert found == whole.tolist()
    table = MeasuredTable.of(AREAS, 2, measurer.taken, "values")
    assert table.num_rows == 1
    assert table.read(0, 1)["values"].to_pylist() == [found]


@pytest.mark.parametrize(
    ("nodes", "cells", "error", "says"),
    [
        ([2], (0, 9), ValueError, "cells: 0 … 9 must be a part of 0 … 8 that is not empty"),
        ([2], (-1, 3), ValueError, "cells: -1 … 3 must be a part of 0 … 8"),
        ([2], (3, 3), ValueError, "cells: 3 … 3 must be a part of 0 … 8 that is not empty"),
        ([1], (0, 1), ValueError, "cells: 0 … 1 must be a part of 0 … 0"),
        ([0, 2], (0, 3), ValueError, "cells: a part is of one node, and nodes has 2; measure them one by one"),
        ([], (0, 1), ValueError, "cells: a part is of one node, and nodes has 0"),
        ([2], (2, 4), ValueError, "cells: 2 … 4 must begin at 0, or where the last part of the same node ended"),
        ([2], (0.0, 1.0), TypeError, "cells: it must be two integers"),
        ([2], (0, 1, 2), TypeError, "cells: it must be two integers"),
        ([2], slice(0, 2), TypeError, "cells: it must be two integers"),
        ([3], (0, 1), ValueError, "nodes: 3 … 3 must lie between 0 and 2"),
    ],
)
def test_a_part_that_the_node_does_not_have_is_refused_before_anything_is_read(nodes, cells, error, says):
    class Drawn:
        def draw(self, noise, address, cells):
            raise AssertionError("noise was drawn")

    measurer = size_measurer(Drawn())
    with pytest.raises(error, match=says):
        measurer.measure("c", np.array(nodes, dtype=np.int64), "sorted_sizes", cells)
    assert measurer.taken == ()


def test_parts_are_measured_in_order_so_that_what_is_kept_is_a_beginning_of_each_node():
    measurer = size_measurer()
    measurer.measure("c", np.array([2]), "sorted_sizes", (0, 3))
    for nodes, cells in (([2], (4, 5)), ([2], (2, 5)), ([0], (3, 4))):
        with pytest.raises(ValueError, match="measure parts in order"):
            measurer.measure("c", np.array(nodes), "sorted_sizes", cells)
    measurer.measure("c", np.array([2]), "sorted_sizes", (3, 8))
    measurer.measure("c", np.array([0]), "sorted_sizes", (0, 2))
    measurer.measure("c", np.array([0]), "sorted_sizes")
    with pytest.raises(ValueError, match="measure parts in order"):
        measurer.measure("c", np.array([0]), "sorted_sizes", (2, 5))
    measurer.measure("c", np.array([0]), "sorted_sizes", (0, 1))
    table = MeasuredTable.of(AREAS, 2, measurer.taken, "values")
    whole = size_measurer().measure("c", np.array([0, 2]), "sorted_sizes").values.tolist()
    assert table.nodes.tolist() == [2, 0, 0, 0]
    assert table.read(0, 4)["values"].to_pylist() == [whole[5:], whole[:2], whole[:5], whole[:1]]


def test_parts_do_not_open_private_numbers_of_groups():
    measurer = size_measurer(invariants="none")
    for cells in ((0, 1), None):
        with pytest.raises(ValueError, match="'sorted_sizes' of 'c' would show the private numbers of groups"):
            measurer.measure("c", np.array([0]), "sorted_sizes", cells)
    assert measurer.taken == ()


def test_an_integer_that_lies_about_itself_is_measured_as_what_was_checked():
    class Liar(int):
        asked = 0

        def __index__(self):
            self.asked += 1
            return 3 if self.asked == 1 else 10**6

        __int__ = __index__

        def __le__(self, other):
            return True

        __lt__ = __ge__ = __gt__ = __le__

    measured = size_measurer().measure("c", np.array([2]), "sorted_sizes", (0, Liar(3)))
    assert measured.offsets.tolist() == [0, 3]


@pytest.mark.parametrize(
    ("values", "kind"),
    [([-128, 127], np.int8), ([128], np.int16), ([-(2**15) - 1], np.int32), ([2**31], np.int64), ([], np.int8)],
)
def test_what_is_kept_is_as_narrow_as_its_values_allow_and_equal_to_them(values, kind):
    class Given:
        def draw(self, noise, address, cells):
            return np.array(values, dtype=np.int64)

    nodes = np.arange(len(values))
    nothing = TrueCounts(AREAS, np.empty(0, np.int64), np.empty(0, np.int64))
    measurer = Measurer(nothing, plan({"c": "counts"}), Given())
    measured = measurer.measure("c", nodes, "counts")
    assert measured.values.dtype == np.int64
    (kept,) = measurer.taken
    assert kept.values.dtype == kind
    assert kept.values.tolist() == values
    assert not kept.values.flags.writeable
    table = MeasuredTable.of(AREAS, 2, measurer.taken, "value").read(0, len(values))
    assert table.schema.field("value").type == pa.int64()
    assert table["value"].to_pylist() == values


def test_a_table_of_measurements_reads_the_same_in_slices(monkeypatch):
    measurer = size_measurer(statistic="tail_counts")
    for nodes in ([1], [0, 2], [2]):
        measurer.measure("c", np.array(nodes), "tail_counts")
    table = MeasuredTable.of(AREAS, 2, measurer.taken, "values")
    whole = table.read(0, table.num_rows)
    monkeypatch.setattr(measured_module, "CELLS_AT_ONCE", 12)
    slices = list(table.slices())
    assert len(slices) > 1
    parts = [decoded(table.read(rows.start, rows.stop)) for rows in slices]
    assert pa.concat_tables(parts).equals(decoded(whole))


def test_an_unknown_statistic_is_refused():
    with pytest.raises(ValueError, match="'mean' is not the count of the level 's'"):
        TrueCounts(AREAS, np.array([0]), np.array([1])).cells("s", np.array([0]), "mean")
    domain = SizesDomain.from_leaves(AREAS, np.array([1, 0, 0]), 0, 4)
    true = TrueSizes(AREAS, np.array([0]), np.array([1]), np.array([1]), domain.groups, 0, 4)
    with pytest.raises(ValueError, match="'counts' is not a statistic of group sizes"):
        true.cells("s", np.array([0]), "counts")


def test_a_key_cannot_be_carried_away():
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(KeyedNoise(KEY))
