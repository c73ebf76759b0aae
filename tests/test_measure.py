import functools
import logging
import operator
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from tallytree.measure import Measurer
from tallytree.privacy.accounting import plan_noise
from tallytree.privacy.sensitivity import sensitivity
from tallytree.privacy.sources import KeyedNoise, OpenDPNoise
from tallytree.sizes import SizesDomain
from tallytree.tabulate.levels import CountLevels, SizeLevels

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
    statistics = CountLevels(AREAS, np.array([2, 0]), np.array([5, 7]))
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
    true = SizeLevels(AREAS, np.array([0]), np.array([1]), np.array([1]), domain.groups, 0, 4)
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

    statistics = CountLevels(AREAS, np.array([0]), np.array([2**62 + 1]))
    with pytest.raises(OverflowError, match="a value at level 'c' is beyond 2\\^62"):
        Measurer(statistics, plan({"c": "counts"}), Drawn()).measure("c", np.array([0]), "counts")


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
    same = CountLevels(AREAS, np.array([0]), np.array([1]))
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
        measurer = Measurer(CountLevels(AREAS, np.array([1]), np.array([987654321])), plan({"c": "counts"}), NoNoise())
        measurer.measure("c", np.array([1]), "counts")
    shown = (
        caplog.text + repr(measurer) + repr(KeyedNoise(KEY)) + repr(CountLevels(AREAS, np.array([1]), np.array([5])))
    )
    assert "987654321" not in shown
    assert str(KEY) not in shown


sizes_by_leaf = st.lists(st.lists(st.integers(0, 6), max_size=5), min_size=3, max_size=3)


@settings(deadline=None, max_examples=60)
@given(sizes_by_leaf, st.integers(0, 2), st.integers(3, 6))
def test_statistics_of_group_sizes_equal_their_definitions(groups, smallest, largest):
    clamped = [np.clip(np.array(leaf, dtype=np.int64), smallest, largest) for leaf in groups]
    leaves = np.repeat(np.arange(3), [len(leaf) for leaf in groups])
    sizes = np.concatenate(clamped)
    domain = SizesDomain.from_leaves(AREAS, np.array([len(leaf) for leaf in groups]), smallest, largest)
    true = SizeLevels(AREAS, leaves, sizes, np.ones(len(sizes), np.int64), domain.groups, smallest, largest)
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
    true = SizeLevels(AREAS, leaves, sizes, np.ones(4, np.int64), domain.groups, 0, 4)
    for statistic in ("tail_counts", "histogram", "sorted_sizes"):
        whole = true.cells("c", np.arange(3), statistic)[2].tolist()
        parts = [true.cells("c", np.array([i]), statistic)[2].tolist() for i in range(3)]
        assert whole == functools.reduce(operator.iadd, parts, [])


def test_an_unknown_statistic_is_refused():
    with pytest.raises(ValueError, match="'mean' is not the count of the level 's'"):
        CountLevels(AREAS, np.array([0]), np.array([1])).cells("s", np.array([0]), "mean")
    domain = SizesDomain.from_leaves(AREAS, np.array([1, 0, 0]), 0, 4)
    true = SizeLevels(AREAS, np.array([0]), np.array([1]), np.array([1]), domain.groups, 0, 4)
    with pytest.raises(ValueError, match="'counts' is not a statistic of group sizes"):
        true.cells("s", np.array([0]), "counts")


def test_a_key_cannot_be_carried_away():
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(KeyedNoise(KEY))
