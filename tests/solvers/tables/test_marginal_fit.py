"""Tables of all areas from noisy marginals: against dense least squares, at the edges, and what must always hold."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.inside import LargeArrays
from tallytree.solvers.tables.fit import fit
from tallytree.solvers.tables.linear import NoisyTable
from tallytree.solvers.tables.marginals import Detail

RNG = np.random.default_rng
ONE_THREAD = LargeArrays(threads=1)
BANDS = (np.zeros(4, dtype=np.int64), np.array([0, 0, 0, 1]), np.arange(4))
BANDED = Detail((BANDS, *Detail.flat([2]).groups))


def up(cells, families):
    """The cells of all levels, root first."""
    levels = [np.asarray(cells).astype(np.int64)]
    for family in families[::-1]:
        levels.insert(0, np.add.reduceat(levels[0], family[:-1], axis=0))
    return levels


def random_families(rng, depth, most=3):
    families, areas = [], 1
    for _ in range(depth):
        families.append(np.concatenate([[0], np.cumsum(rng.integers(1, most + 1, areas))]))
        areas = int(families[-1][-1])
    return families


def measure(rng, detail, cells, families, variance, keep=1.0):
    """Noisy marginals of all levels, some left out and of unequal variance where keep < 1."""
    found = []
    for level in up(cells, families):
        found.append([])
        for marginal in detail.components:
            if rng.random() < keep:
                own = variance * (10 ** rng.uniform(-2, 2) if keep < 1 else 1.0)
                true = detail.summed(level, marginal)
                noise = np.rint(rng.normal(0, np.sqrt(own), true.shape)).astype(np.int64)
                found[-1].append(NoisyTable(marginal, true + noise, own))
    return found


def dense(detail, families, measured):
    """The least-squares estimate of all levels (of least norm where it is not unique)."""
    areas = [np.eye(int(families[-1][-1]) if families else 1)]
    for family in families[::-1]:
        areas.insert(0, np.add.reduceat(areas[0], family[:-1], axis=0))
    rows, values = [np.zeros((0, areas[-1].shape[1] * detail.cells))], [np.zeros(0)]
    for above, level in zip(areas, measured, strict=True):
        for each in level:
            sizes = detail.group_sizes(each.marginal)
            cell = np.zeros((detail.size(each.marginal), detail.cells))
            cell[detail.cell_of(each.marginal), np.arange(detail.cells)] = 1
            root = np.sqrt(detail.mean_group(each.marginal) / sizes / each.variance)
            rows.append(np.kron(above, root[:, None] * cell))
            values.append((each.values * root).ravel())
    x = np.linalg.lstsq(np.vstack(rows), np.concatenate(values), rcond=1e-13)[0].reshape(-1, detail.cells)
    return [above @ x for above in areas]


def published(detail, families, measured):
    """The least-squares estimates of all tables that follow from what is measured: per level, by marginal."""
    wanted = [set() for _ in measured]
    for level in range(len(measured) - 1, -1, -1):
        wanted[level] |= wanted[level + 1] if level + 1 < len(measured) else set()
        wanted[level] |= {t for each in measured[level] for t in detail.components if t <= each.marginal}
        wanted[level] = {
            t
            for t in wanted[level]
            if any(all(map(int.__le__, t, each.marginal)) for below in measured[level:] for each in below)
        }
    return fit(detail, families, measured, wanted=wanted, arrays=ONE_THREAD)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.integers(0, 100_000))
def test_without_constraints_it_is_least_squares(seed):
    """Levels with different sets of marginals, and unequal variances."""
    rng = RNG(seed)
    detail = BANDED if seed % 3 == 0 else Detail.flat(rng.integers(1, 4, rng.integers(1, 4)))
    families = random_families(rng, rng.integers(0, 4), 2)
    cells = rng.integers(10**8, 10**9, (int(families[-1][-1]) if families else 1, detail.cells))
    measured = measure(rng, detail, cells, families, 100.0, keep=0.5)
    finest = detail.summed(up(cells, families)[-1], detail.finest)
    measured[-1].append(NoisyTable(detail.finest, finest + rng.integers(-9, 9, finest.shape), 30.0))
    expected, found = dense(detail, families, measured), published(detail, families, measured)
    for (level, marginal), values in found.estimates.items():
        np.testing.assert_allclose(values, detail.summed(expected[level], marginal), rtol=1e-9)
    assert {(len(families), marginal) for marginal in detail.components} <= set(found.estimates)
    for a, b in zip(expected, up(found.leaves, families), strict=True):
        assert np.abs(a - b).max() < 4  # rounding, and the children of a rounded parent


@pytest.mark.slow
@example(136, 3.0, 0.3)  # of no level is a table known that has all attributes
@settings(max_examples=60)
@given(st.integers(0, 100_000), st.sampled_from([0.01, 3.0, 1e4]), st.sampled_from([0.0, 0.3, 1.0]))
def test_values_are_integers_of_all_areas_and_totals_are_kept(seed, people, keep):
    """Whatever is measured, or nothing: levels that are not, marginals that are not, totals of any level."""
    rng = RNG(seed)
    detail = BANDED if seed % 4 == 0 else Detail.flat(rng.integers(1, 5, rng.integers(0, 4)))
    families = random_families(rng, rng.integers(0, 4), 5)
    cells = rng.poisson(rng.gamma(0.3, people, (int(families[-1][-1]) if families else 1, detail.cells)))
    measured = measure(rng, detail, cells, families, 100.0, keep)
    depth = int(rng.integers(0, len(families) + 1))
    for totals in (None, (depth, up(cells, families)[depth].sum(axis=1))):
        found = fit(detail, families, measured, totals=totals, arrays=ONE_THREAD).leaves
        assert found.dtype == np.int32
        assert found.shape == cells.shape
        assert (found >= 0).all()
        if totals is not None:
            for level in range(depth + 1):
                np.testing.assert_array_equal(
                    up(found, families)[level].sum(axis=1), up(cells, families)[level].sum(axis=1)
                )


def random_case(seed, leaves_mean=20.0, most=8):
    rng, detail = RNG(seed), Detail.flat([6, 3])
    families = random_families(rng, 3, most)
    size = rng.lognormal(np.log(leaves_mean), 1.0, int(families[-1][-1]))
    share = rng.dirichlet(np.full(detail.cells, 0.3))
    cells = rng.poisson(size[:, None] * share)
    return detail, families, cells, measure(rng, detail, cells, families, 100.0)


@pytest.mark.slow
def test_the_result_does_not_depend_on_threads_or_chunks_or_on_where_arrays_are(tmp_path):
    detail, families, cells, measured = random_case(1)
    totals = (2, up(cells, families)[2].sum(axis=1))
    for kept in (None, totals):
        one = fit(detail, families, measured, totals=kept, arrays=ONE_THREAD).leaves
        in_files = LargeArrays(threads=3, folder=tmp_path, least=0, at_once=60)
        np.testing.assert_array_equal(fit(detail, families, measured, totals=kept, arrays=in_files).leaves, one)


def test_what_is_given_stays_as_it_is():
    detail, families, _, measured = random_case(2)
    before = [[each.values.copy() for each in level] for level in measured]
    first = fit(detail, families, measured).leaves
    np.testing.assert_array_equal(fit(detail, families, measured).leaves, first)
    for level, values in zip(measured, before, strict=True):
        for each, kept in zip(level, values, strict=True):
            np.testing.assert_array_equal(each.values, kept)


def test_measurements_of_any_width_and_order_are_the_same():
    detail, families, _, measured = random_case(3)
    expected = fit(detail, families, measured).leaves
    changed = [
        [NoisyTable(each.marginal, np.asfortranarray(each.values.astype(np.int32)), each.variance) for each in level]
        for level in measured
    ]
    np.testing.assert_array_equal(fit(detail, families, changed).leaves, expected)
    twice = [[NoisyTable(each.marginal, each.values, 2 * each.variance) for each in level] * 2 for level in measured]
    np.testing.assert_allclose(fit(detail, families, twice).leaves, expected, atol=3)


@pytest.mark.slow
def test_no_table_errs_more_than_without_constraints():
    """On random tables with many small cells: mean absolute errors by level and marginal."""
    ratios = []
    for seed in range(30):
        detail, families, cells, measured = random_case(seed, 200.0, most=3)
        errors = [
            [
                [np.abs(detail.summed(a - b, marginal)).mean() for marginal in detail.components]
                for a, b in zip(levels, up(cells, families), strict=True)
            ]
            for levels in (up(fit(detail, families, measured).leaves, families), dense(detail, families, measured))
        ]
        ratios.append(errors)
    fitted, plain = np.mean(ratios, axis=0)
    assert (fitted / plain).max() < 1.1
    assert fitted[-1, -1] / plain[-1, -1] < 0.7


# --- Edges ---


@pytest.mark.parametrize("detail", [Detail(()), Detail.flat([1, 1]), Detail.flat([5]), BANDED])
def test_one_area(detail):
    values = np.arange(detail.cells)[None, :] * 3 - 2
    found = fit(detail, [], [[NoisyTable(detail.finest, values, 4.0)]]).leaves
    assert found.sum() == max(values.sum(), 0)  # the total is unbiased: what is below 0 is taken from the others
    np.testing.assert_allclose(found, np.maximum(values, 0), atol=2)
    found = fit(detail, [], [[NoisyTable(detail.finest, values, 4.0)]], totals=(0, np.array([17]))).leaves
    assert found.sum() == 17


def test_a_chain_of_only_children_has_one_table():
    detail, families = Detail.flat([3, 2]), [np.array([0, 1])] * 4
    cells = RNG(0).integers(50, 99, (1, 6))
    found = fit(detail, families, measure(RNG(1), detail, cells, families, 16.0)).leaves
    assert np.abs(found - cells).max() < 12
    expected = dense(detail, families, measure(RNG(1), detail, cells, families, 16.0))[-1]
    assert np.abs(found - expected).max() < 1.5


def test_zeros_stay_zeros_and_nothing_measured_is_divided_evenly():
    detail, families = Detail.flat([3, 2]), [np.array([0, 3])]
    nothing = measure(RNG(0), detail, np.zeros((3, 6), np.int64), families, 1e-6)
    assert fit(detail, families, nothing).leaves.sum() == 0
    found = fit(detail, families, [[], []], totals=(0, np.array([180]))).leaves
    np.testing.assert_array_equal(found, np.full((3, 6), 10))


def test_what_is_measured_above_only_follows_the_childrens_totals():
    detail, families = Detail.flat([4, 2]), [np.array([0, 2])]
    pattern = np.array([[40, 0, 20, 20, 10, 10, 0, 0]])
    measured = [
        [NoisyTable(detail.finest, pattern * 100, 1.0)],
        [NoisyTable((0, 0), np.array([[7_500], [2_500]]), 1.0)],
    ]
    np.testing.assert_allclose(fit(detail, families, measured).leaves, np.vstack([pattern * 75, pattern * 25]), atol=1)


@pytest.mark.parametrize("share", [1e-3, 1e-9])
def test_levels_with_next_to_no_budget_end_in_time(share):
    detail, families, cells, _ = random_case(4)
    rng = RNG(4)
    measured = [
        [
            NoisyTable(t, detail.summed(level, t) + rng.integers(-5, 6, (len(level), detail.size(t))), 10 / own)
            for t, own in zip(detail.components, rng.permutation([1, share, 1, share]), strict=True)
        ]
        for level in up(cells, families)
    ]
    found = fit(detail, families, measured).leaves
    assert (found >= 0).all()


def test_huge_values_are_kept():
    detail, families = Detail.flat([3, 2]), [np.array([0, 3]), np.array([0, 2, 3, 6])]
    cells = RNG(0).integers(10**11, 10**12, (6, 6))
    cells[0, 0] = 0
    measured = measure(RNG(1), detail, cells, families, 100.0)
    totals = (1, up(cells, families)[1].sum(axis=1))
    found = fit(detail, families, measured, totals=totals).leaves
    assert found.dtype == np.int64
    assert np.abs(found - cells).max() < 60
    np.testing.assert_array_equal(up(found, families)[1].sum(axis=1), totals[1])


def test_wrong_input_is_refused():
    detail, families, _, measured = random_case(5)
    areas = [1, *(int(family[-1]) for family in families)]
    values = np.zeros((1, 6), dtype=np.int64)

    def root(**changes):
        return [[NoisyTable(**{"marginal": (1, 0), "values": values, "variance": 1.0} | changes)], *measured[1:]]

    for wrong, message in [
        (measured[1:], "measured has 3 levels; families needs 4"),
        (root(marginal=(1,)), r"measured\[0\], marginal \(1,\): must have a level of each of 2 attributes"),
        (root(marginal=(2, 0)), "must have a level of each"),
        (root(values=values[:, :5]), r"shape \(1, 5\) must have the shape \(1, 6\)"),
        (root(values=values + 0.5), "float64 must be integers"),
        (root(variance=0.0), "variance=0.0 must be a number from 1e-50 to 1e50"),
        (root(variance=np.nan), "variance=nan must be a number"),
        (root(values=values + 2**62), "values are too large to add up"),
    ]:
        with pytest.raises(ValueError, match=message):
            fit(detail, families, wrong)
    with pytest.raises(ValueError, match=r"families\[0\] must give each of 1 areas a child at least"):
        fit(detail, [np.array([0, 0, areas[1]]), *families[1:]], measured)
    with pytest.raises(ValueError, match="totals must be a level, 0 … 3"):
        fit(detail, families, measured, totals=(4, np.zeros(1, np.int64)))
    with pytest.raises(ValueError, match="one number for each of its areas"):
        fit(detail, families, measured, totals=(0, np.zeros(2, np.int64)))
    with pytest.raises(ValueError, match="totals must be 0 or more"):
        fit(detail, families, measured, totals=(0, np.array([-1])))


@pytest.mark.parametrize("size", [100, 10_000, 1_000_000])
def test_what_is_not_measured_does_not_move_what_is(size):
    """Two marginals of each area, and nothing of how they go together: both come out as they are, however large."""
    rng = np.random.default_rng(14)
    detail = Detail.flat([6, 3])
    truth = rng.poisson(rng.lognormal(np.log(size), 1.0, (12, 6, 1)) * np.array([0.5, 0.499, 0.001]))
    families = [np.array([0, 3]), np.array([0, 4, 8, 12])]
    measured = [[], [], [NoisyTable((1, 0), truth.sum(2), 1.0), NoisyTable((0, 1), truth.sum(1), 1.0)]]
    found = fit(detail, families, measured).leaves.reshape(truth.shape)
    assert np.abs(found.sum(2) - truth.sum(2)).max() <= 3
    assert np.abs(found.sum(1) - truth.sum(1)).max() <= 3
